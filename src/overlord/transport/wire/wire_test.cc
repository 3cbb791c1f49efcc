// The wire on loopback: order, large frames, silence, strangers, nonsense.
#include "overlord/transport/wire/wire.h"

#include <arrow/flight/api.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "overlord/base/rng.h"
#include "overlord/transport/wire/wire_calls.h"
#include "overlord/transport/wire/wire_session.h"

namespace overlord::transport {
namespace {

constexpr auto kPatience = std::chrono::seconds(120);

// One end of a link, as a test sees it.
class End {
 public:
  WireCallbacks callbacks() {
    return {[this](runtime::Bytes frame) {
              const std::lock_guard lock(mutex_);
              frames_.push_back(std::move(frame));
              changed_.notify_all();
            },
            [this](const Status& status) {
              const std::lock_guard lock(mutex_);
              closed_ = status;
              over_ = true;
              changed_.notify_all();
            }};
  }
  bool wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return frames_.size() >= count; });
  }
  Status wait_for_end() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return over_; })) {
      return Status(Code::kDeadline, "it goes on");
    }
    return closed_;
  }
  std::string text(size_t i) {
    const std::lock_guard lock(mutex_);
    return {frames_[i].data, frames_[i].size};
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return frames_.size();
  }

  LinkPtr link;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<runtime::Bytes> frames_;
  Status closed_;
  bool over_ = false;
};

class WireTest : public testing::Test {
 protected:
  void listen(const WireSecurity& security = {}, const WireLimits& limits = {}) {
    Result<std::unique_ptr<WireServer>> server = WireServer::listen(
        "127.0.0.1:0", security, limits, [this](const LinkPtr& link, const std::string&) {
          acceptor.link = link;
          return acceptor.callbacks();
        });
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
  }
  Status connect(const WireSecurity& security = {}, const WireLimits& limits = {}) {
    Result<LinkPtr> link =
        connect_wire(server_->address(), security, limits, runtime::BufferPool::make(1 << 30),
                     [this](const LinkPtr&) { return connector.callbacks(); });
    if (!link.ok()) return link.status();
    connector.link = std::move(*link);
    return {};
  }

  // Links first: they tell their ends that they close.
  void TearDown() override {
    connector.link.reset();
    server_.reset();
    acceptor.link.reset();
  }

  End acceptor;
  End connector;
  std::unique_ptr<WireServer> server_;
};

std::string made_up(size_t size, uint64_t seed) {
  std::string out(size, '\0');
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<char>(seed * 131 + i * 7 + i / 4096);
  return out;
}

TEST_F(WireTest, SmallFramesKeepTheirOrderBothWays) {
  listen();
  ASSERT_TRUE(connect().ok());
  for (int i = 0; i < 500; ++i) {
    acceptor.link->send("to the connector " + std::to_string(i));
    connector.link->send("to the acceptor " + std::to_string(i));
  }
  ASSERT_TRUE(connector.wait_for(500));
  ASSERT_TRUE(acceptor.wait_for(500));
  for (size_t i = 0; i < 500; ++i) {
    EXPECT_EQ(connector.text(i), "to the connector " + std::to_string(i));
    EXPECT_EQ(acceptor.text(i), "to the acceptor " + std::to_string(i));
  }
}

TEST_F(WireTest, LargeFramesArePulledWhole) {
  WireLimits limits;
  limits.bulk_bytes = 1000;
  limits.slice_bytes = 70'000;
  listen({}, limits);
  ASSERT_TRUE(connect({}, limits).ok());
  std::map<size_t, std::string> sent;
  for (const size_t size : {1001ul, 69'999ul, 70'000ul, 70'001ul, 5'000'000ul}) {
    sent[size] = made_up(size, size);
    acceptor.link->send(sent[size]);
  }
  ASSERT_TRUE(connector.wait_for(sent.size()));
  for (size_t i = 0; i < sent.size(); ++i) {
    const std::string got = connector.text(i);
    EXPECT_TRUE(got == sent[got.size()]) << got.size();
    sent.erase(got.size());
  }
}

TEST_F(WireTest, HeldFramesAreSentFromWhereTheyLieAndLetGo) {
  WireLimits limits;
  limits.bulk_bytes = 1000;
  listen({}, limits);
  ASSERT_TRUE(connect({}, limits).ok());
  auto large = std::make_shared<const std::string>(made_up(300'000, 5));
  auto small = std::make_shared<const std::string>("small");
  const std::string expected = *large;
  const std::weak_ptr<const std::string> watched = large;
  for (const auto& held : {small, large}) {
    acceptor.link->send_held({held, held->data(), held->size()});
    ASSERT_TRUE(connector.wait_for(held == small ? 1 : 2));
  }
  large.reset();
  EXPECT_EQ(connector.text(0), "small");
  EXPECT_TRUE(connector.text(1) == expected);
  // What was pulled has been released before it is received, but Flight may still hold the slice.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!watched.expired() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(watched.expired());
}

TEST_F(WireTest, SmallFramesOvertakeLargeOnes) {
  WireLimits limits;
  limits.slice_bytes = 1 << 20;
  limits.connections = 1;
  listen({}, limits);
  ASSERT_TRUE(connect({}, limits).ok());
  acceptor.link->send(made_up(200 << 20, 1));
  acceptor.link->send("small");
  ASSERT_TRUE(connector.wait_for(1));
  EXPECT_EQ(connector.text(0), "small");
  ASSERT_TRUE(connector.wait_for(2));
}

TEST_F(WireTest, CreditBoundsWhatIsPulledAtOnce) {
  WireLimits limits;
  limits.bulk_bytes = 1000;
  limits.credit_bytes = 2'500'000;
  listen({}, limits);
  auto pool = runtime::BufferPool::make(0);
  Result<LinkPtr> link = connect_wire(server_->address(), {}, limits, pool,
                                      [this](const LinkPtr&) { return connector.callbacks(); });
  ASSERT_TRUE(link.ok());
  for (int i = 0; i < 20; ++i) acceptor.link->send(made_up(1'000'000, 3));
  ASSERT_TRUE(connector.wait_for(20)) << "every frame comes, however little credit there is";
}

TEST_F(WireTest, AClosedLinkIsToldToTheOtherSide) {
  listen();
  ASSERT_TRUE(connect().ok());
  connector.link->close();
  EXPECT_EQ(connector.wait_for_end().code(), Code::kCancelled);
  EXPECT_EQ(acceptor.wait_for_end().code(), Code::kUnavailable);
}

TEST_F(WireTest, AnAcceptorThatGoesIsNoticed) {
  WireLimits limits;
  limits.silence_ns = 300'000'000;
  listen({}, limits);
  ASSERT_TRUE(connect({}, limits).ok());
  server_->close();
  EXPECT_EQ(connector.wait_for_end().code(), Code::kUnavailable);
}

TEST_F(WireTest, ASilentConnectorIsTakenForDead) {
  WireLimits limits;
  limits.silence_ns = 300'000'000;
  listen({}, limits);
  // Somebody who opens a session and says no more.
  auto client = arrow::flight::FlightClient::Connect(
      *arrow::flight::Location::Parse("grpc://" + server_->address()));
  ASSERT_TRUE(client.ok());
  auto results = (*client)->DoAction(
      arrow::flight::Action("open", arrow::Buffer::FromString(encode_call({}))));
  ASSERT_TRUE(results.ok());
  ASSERT_TRUE((*results)->Next().ok());
  EXPECT_EQ(acceptor.wait_for_end().code(), Code::kUnavailable);
}

TEST_F(WireTest, NobodyIsServedWithoutTheToken) {
  WireSecurity right;
  right.token = "correct horse";
  listen(right);
  EXPECT_FALSE(connect().ok());
  WireSecurity wrong;
  wrong.token = "battery staple";
  const Status refused = connect(wrong);
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(refused.message().find("battery"), std::string::npos) << "secrets are not printed";
  EXPECT_EQ(server_->refused(), 2u);
  EXPECT_TRUE(connect(right).ok());
}

TEST_F(WireTest, BeyondLoopbackNothingOpensWithoutTlsAndToken) {
  const auto accept = [](const LinkPtr&, const std::string&) { return WireCallbacks(); };
  WireSecurity token_only;
  token_only.token = "t";
  for (const char* address : {"0.0.0.0:0", "10.0.0.1:7000", "[::]:0", "some.host:7000"}) {
    for (const WireSecurity& security : {WireSecurity(), token_only}) {
      const Result<std::unique_ptr<WireServer>> server =
          WireServer::listen(address, security, {}, accept);
      EXPECT_EQ(server.status().code(), Code::kInvalidArgument) << address;
    }
    const Result<LinkPtr> link = connect_wire(address, token_only, {}, nullptr, nullptr);
    EXPECT_EQ(link.status().code(), Code::kInvalidArgument) << address;
  }
}

TEST_F(WireTest, NonsenseIsRefusedAndHurtsNobody) {
  listen();
  ASSERT_TRUE(connect().ok());
  auto client = arrow::flight::FlightClient::Connect(
      *arrow::flight::Location::Parse("grpc://" + server_->address()));
  ASSERT_TRUE(client.ok());
  const std::string bodies[] = {"", "x", encode_call({digest_of("foreign"), 1, 1, "y"}),
                                std::string(100'000, '\xff')};
  for (const std::string& body : bodies) {
    for (const char* type : {"send", "take", "release", "close", "format"}) {
      auto results =
          (*client)->DoAction(arrow::flight::Action(type, arrow::Buffer::FromString(body)));
      EXPECT_FALSE(results.ok() && (*results)->Next().ok()) << type;
    }
    auto reader = (*client)->DoGet(arrow::flight::Ticket{body});
    EXPECT_FALSE(reader.ok() && (*reader)->Next().ok());
  }
  EXPECT_GE(server_->refused(), 20u);
  acceptor.link->send("still here");
  ASSERT_TRUE(connector.wait_for(1));
}

TEST(WireSession, ABatchThatComesTwiceCountsOnce) {
  WireInbox inbox;
  WireBatch batch{1, {{0, 0, "a"}, {0, 0, "b"}}};
  EXPECT_EQ(inbox.accept(batch)->size(), 2u);
  EXPECT_EQ(inbox.accept(batch)->size(), 0u);
  batch.frames.push_back({0, 0, "c"});
  EXPECT_EQ(inbox.accept(batch)->at(0).bytes, "c");
  EXPECT_FALSE(inbox.accept({5, {{0, 0, "e"}}}).ok()) << "frame 4 is missing";
}

TEST(WireSession, WhatIsNotAcknowledgedIsTakenAgain) {
  WireOutbox outbox({}, true);
  for (const char* text : {"a", "b", "c"}) outbox.put(text);
  EXPECT_EQ(outbox.take(0, 0).frames.size(), 3u);
  const WireBatch again = outbox.take(1, 0);
  EXPECT_EQ(again.first, 2u);
  EXPECT_EQ(again.frames.size(), 2u);
  EXPECT_TRUE(outbox.take(3, 0).frames.empty());
}

TEST(WireSession, BatchesOfNonsenseAreRefused) {
  WireBatch batch{9, {{0, 0, "some text"}, {4, 1 << 20, ""}, {0, 0, ""}}};
  const std::string good = encode_batch(batch);
  ASSERT_EQ(decode_batch(good, {})->frames, batch.frames);
  for (size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_FALSE(decode_batch(std::string_view(good).substr(0, cut), {}).ok());
  }
  for (uint64_t i = 0; i < 2000; ++i) {
    std::string bad = good;
    bad[uniform_below(7, i, 0, bad.size())] ^= static_cast<char>(1 + uniform_below(7, i, 1, 255));
    static_cast<void>(decode_batch(bad, {}).ok());  // no crash, no huge allocation
  }
}

}  // namespace
}  // namespace overlord::transport
