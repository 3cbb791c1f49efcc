// Whom a node that has nothing to serve tells so, and when it is done.
#include "overlord/node/keeper/refusal.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <future>

#include "overlord/transport/carrier.h"
#include "overlord/transport/endpoint.h"
#include "overlord/transport/temporary_base_test.h"

namespace overlord::node {
namespace {

// The refusal's door on a thread of its own.
class Refusing : public ::testing::Test {
 protected:
  void SetUp() override {
    pthread_sigmask(SIG_BLOCK, nullptr, &mask_);
    line_ = *LifeLine::make();
    arguments_.directory = base_.path();
  }
  void TearDown() override {
    line_.reset();
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  std::future<void> refuse(const std::vector<Rank>& expected, bool unknown = false) {
    keeper::FailureBook failure(Status(Code::kInvalidArgument, "no such source"), 2, expected);
    return std::async(std::launch::async, [this, failure, unknown] {
      run_refusal(arguments_, failure, unknown, *line_);
    });
  }
  // What somebody who calls is told; nothing: let in.
  std::string told(const std::string& name, std::vector<Rank> ranks, uint32_t attempt = 2) {
    transport::CarrierOptions carrier_options;
    carrier_options.name = name;
    carrier_options.deliver = [](const protocol::Envelope&) {};
    transport::Carrier carrier(std::move(carrier_options));
    std::promise<std::string> answer;
    std::atomic<bool> answered{false};
    const auto once = [&](const std::string& text) {
      if (!answered.exchange(true)) answer.set_value(text);
    };
    transport::EndpointOptions options;
    options.directory = base_.path();
    options.self.name = name;
    options.self.attempt = attempt;
    for (const Rank rank : ranks) options.self.roles.push_back(protocol::client_address(rank));
    options.pool = runtime::BufferPool::make(1 << 20);
    options.connected = [&](const protocol::Hello&) { once(""); };
    options.refused = [&](const std::string&, const Status& why) { once(why.message()); };
    auto endpoint = transport::Endpoint::open(std::move(options), &carrier);
    EXPECT_TRUE(endpoint.ok()) << endpoint.status().message();
    (*endpoint)->call("node");
    const std::string text = answer.get_future().get();
    (*endpoint)->close();
    return text;
  }

  sigset_t mask_ = {};
  transport::TemporaryBase base_;
  KeeperArguments arguments_;
  std::unique_ptr<LifeLine> line_;
};

TEST_F(Refusing, WhereAllKnowThereIsNoDoor) {
  arguments_.directory = base_.path("none");
  refuse({}).get();
}

TEST_F(Refusing, EveryRankIsToldOnceAndThenItEnds) {
  std::future<void> over = refuse({0, 1, 2});
  EXPECT_NE(told("top", {}).find("no such source"), std::string::npos)
      << "who only looks is told as well, and is none of them";
  EXPECT_NE(told("rank-0", {0}).find("no such source"), std::string::npos);
  EXPECT_NE(over.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_NE(told("rank-1", {1, 2}).find("no such source"), std::string::npos);
  over.get();
}

TEST_F(Refusing, ARankOfAnotherTryEndsIt) {
  std::future<void> over = refuse({0, 1});
  EXPECT_EQ(told("rank-0", {0}, 3), "") << "let in: it finds the node gone and starts the next";
  over.get();
}

TEST_F(Refusing, ARankThatComesAgainIsOfAnotherTryAlsoWhereMoreMayCome) {
  std::future<void> over = refuse({0}, true);
  EXPECT_NE(told("rank-0", {0}).find("no such source"), std::string::npos);
  EXPECT_NE(over.wait_for(std::chrono::seconds(0)), std::future_status::ready)
      << "ranks may come that nobody expects";
  EXPECT_EQ(told("rank-0", {0}), "");
  over.get();
}

}  // namespace
}  // namespace overlord::node
