// Who gets an envelope, how roles come and go, and who is told of generations.
#include "overlord/host/role_host.h"

#include <gtest/gtest.h>

#include <deque>

#include "overlord/host/made_up_job_test.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/runtime/in_memory/memory_journal.h"

namespace overlord::host {
namespace {

using protocol::Address;
using protocol::client_address;
using protocol::constructor_address;
using protocol::loader_address;
using protocol::planner_address;

class Queue final : public runtime::Executor {
 public:
  void post(runtime::Task task) override { tasks_.push_back(std::move(task)); }
  void post_after(int64_t, runtime::Task) override {}
  void run() {
    while (!tasks_.empty()) {
      const runtime::Task task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }

 private:
  std::deque<runtime::Task> tasks_;
};

class NoTime final : public runtime::Clock {
 public:
  int64_t now_ns() override { return 0; }
};

// Two ranks of one bucket, one source with two loaders; what roles send is written down.
class Hosting : public ::testing::Test, public runtime::Transport<protocol::Envelope> {
 protected:
  Hosting() {
    MadeUpJob made_up;
    made_up.axes = {{"dp", 1}, {"tp", 2}};
    model::Source source = made_up_source("s");
    source.loaders = 2;
    made_up.add(made_up_rows(source, 8));
    job_ = *made_up.open();
    start_.job = job_;
    start_.ranks = {0, 1};
    start_.options.prefetch_steps = 1;
    start_.state = start_state(*job_);
    start_.deliver = [this](Rank rank, const client::ReadyStep& ready) {
      delivered_.emplace_back(rank, ready.failure ? ready.failure->message() : "");
    };
  }
  void send(protocol::Envelope envelope) override { sent_.push_back(std::move(envelope)); }

  RoleHost& make(HostedRoles hosted) {
    start_.hosted = std::move(hosted);
    HostSeams seams;
    seams.executor = &queue_;
    seams.storage = &storage_;
    seams.clock = &clock_;
    seams.journal = &journal_;
    seams.pool = runtime::BufferPool::make(1 << 20);
    seams.transport = this;
    host_ = std::make_unique<RoleHost>(start_, std::move(seams));
    return *host_;
  }
  // Its clients have asked for their first steps.
  RoleHost& start(HostedRoles hosted) {
    make(std::move(hosted)).start();
    queue_.run();
    return *host_;
  }
  static HostedRoles only(std::vector<Rank> clients) {
    return {false, std::vector<Address>{}, std::vector<uint32_t>{}, std::move(clients)};
  }
  // The constructor of this generation says that no step comes.
  void fail(Rank rank, const std::string& why, uint32_t generation = 1) {
    model::Versions versions = host_->versions();
    versions.generation = generation;
    host_->deliver({versions, constructor_address(0), client_address(rank),
                    protocol::StreamFailed{0, Status(Code::kInternal, why)}});
    queue_.run();
  }
  // Steps that were asked for since the last time, with whom of.
  std::vector<std::pair<StepIndex, Address>> asked() {
    std::vector<std::pair<StepIndex, Address>> out;
    for (const protocol::Envelope& envelope : sent_) {
      const auto* get = std::get_if<protocol::Get>(&envelope.message);
      if (get != nullptr) out.emplace_back(get->step, envelope.to);
    }
    sent_.clear();
    return out;
  }

  using Delivered = std::vector<std::pair<Rank, std::string>>;
  using Asked = std::vector<std::pair<StepIndex, Address>>;
  std::shared_ptr<const OpenJob> job_;
  HostStart start_;
  Queue queue_;
  NoTime clock_;
  runtime::MemoryStorage storage_;
  runtime::MemoryJournal journal_;
  std::vector<protocol::Envelope> sent_;
  Delivered delivered_;
  std::unique_ptr<RoleHost> host_;
};

TEST_F(Hosting, WhatIsNotNamedIsHostedWhole) {
  EXPECT_EQ(make({}).hosted(),
            (std::vector<Address>{planner_address(), loader_address(0, 0), loader_address(0, 1),
                                  constructor_address(0), client_address(0), client_address(1)}));
  EXPECT_EQ(make({false, std::vector<Address>{loader_address(0, 1)}, std::vector<uint32_t>{1},
                  std::vector<Rank>{1, 5}})
                .hosted(),
            (std::vector<Address>{loader_address(0, 1), client_address(1)}))
      << "nobody makes a constructor without ranks, or a rank that is not served";
}

TEST_F(Hosting, AnEnvelopeGoesToTheRoleItNamesAndToNobodyElse) {
  start(only({0, 1}));
  fail(1, "for one");
  EXPECT_EQ(delivered_, (Delivered{{1, "for one"}}));
  start(only({0}));
  fail(1, "for one that lives elsewhere");
  EXPECT_EQ(delivered_.size(), 1u);
}

TEST_F(Hosting, ARetiredRoleHearsNothingMore) {
  RoleHost& host = start(only({0, 1}));
  host.deliver({host.versions(), constructor_address(0), client_address(1),
                protocol::StreamFailed{0, Status(Code::kInternal, "not handled yet")}});
  host.retire(client_address(1));
  host.retire(client_address(1));
  EXPECT_EQ(host.hosted(), std::vector<Address>{client_address(0)});
  fail(1, "too late");
  EXPECT_TRUE(delivered_.empty());
  fail(0, "the other one notices nothing");
  EXPECT_EQ(delivered_.size(), 1u);
}

TEST_F(Hosting, AStoppedHostHandlesNothingAndTakesNobodyIn) {
  RoleHost& host = start(only({0}));
  host.stop();
  host.stop();
  host.add(client_address(1));
  EXPECT_EQ(host.hosted(), std::vector<Address>{client_address(0)});
  fail(0, "nobody listens");
  EXPECT_TRUE(delivered_.empty());
}

TEST_F(Hosting, AClientThatComesLaterAsksFromItsStepInItsGeneration) {
  RoleHost& host = make(only({}));
  host.add(client_address(1), 3, 5);
  queue_.run();
  ASSERT_FALSE(sent_.empty());
  EXPECT_EQ(sent_[0].versions.generation, 3u);
  EXPECT_EQ(sent_[0].from, client_address(1));
  EXPECT_EQ(asked(), (Asked{{5, constructor_address(0)}, {6, constructor_address(0)}}));
  host.add(client_address(1), 4, 9);
  queue_.run();
  EXPECT_TRUE(asked().empty()) << "it is there already";
}

TEST_F(Hosting, RolesAreToldOfARestartAndAskAgain) {
  RoleHost& host = start(only({0, 1}));
  EXPECT_EQ(asked().size(), 4u);
  host.peer_restarted(constructor_address(0), 2);
  queue_.run();
  EXPECT_EQ(asked().size(), 4u) << "what was on its way may be lost";
  fail(0, "of the dead", 1);
  EXPECT_TRUE(delivered_.empty());
  fail(0, "of the living", 2);
  EXPECT_EQ(delivered_, (Delivered{{0, "of the living"}}));
}

TEST_F(Hosting, RolesThatComeLaterKnowTheNewestGenerations) {
  RoleHost& host = make(only({}));
  host.peer_restarted(constructor_address(0), 3);
  host.peer_restarted(constructor_address(0), 2);  // news that comes late
  host.add(client_address(0));
  fail(0, "of the dead", 2);
  EXPECT_TRUE(delivered_.empty());
  fail(0, "of the living", 3);
  EXPECT_EQ(delivered_.size(), 1u);
}

TEST_F(Hosting, ATreeBringsItsConstructorsAndClientsAskThem) {
  RoleHost& host = start(only({0, 1}));
  sent_.clear();
  planner::TreeChanged change{1, {*model::Mesh::make({{"dp", 2}}), nullptr, 2}};
  change.tree.views = plan::make_views(change.tree.mesh, job_->delivery, 2);
  host.take_tree(change, std::vector<uint32_t>{1}, 4);
  queue_.run();
  EXPECT_EQ(host.hosted(),
            (std::vector<Address>{constructor_address(1, 2), client_address(0), client_address(1)}))
      << "of the named bucket alone";
  // Step 0 stays with the tree that it is of.
  EXPECT_EQ(asked(), (Asked{{1, constructor_address(0, 2)}, {1, constructor_address(1, 2)}}));
  host.take_tree(change, std::vector<uint32_t>{1}, 4);
  queue_.run();
  EXPECT_TRUE(asked().empty()) << "it is known";
  EXPECT_EQ(host.hosted().size(), 3u);
  host.take_tree(change);
  EXPECT_EQ(host.constructors().count(constructor_address(0, 2)), 1u) << "all where none is named";
}

TEST_F(Hosting, TheMeshIsChangedByThePlannerOfAllRanks) {
  start_.ranks = {0};
  RoleHost& host = make({true, std::vector<Address>{}, std::vector<uint32_t>{}, {}});
  std::optional<Result<StepIndex>> answer;
  host.rebuild_tree({*model::Mesh::make({{"dp", 2}}), std::nullopt},
                    [&](Result<StepIndex> got) { answer = std::move(got); });
  queue_.run();
  ASSERT_TRUE(answer.has_value());
  expect_refused(answer->status(), "this one serves 1 of 2");
}

}  // namespace
}  // namespace overlord::host
