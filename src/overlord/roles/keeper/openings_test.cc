// Ranks that open the stream again, each when it is through with it: nobody is ended by that.
#include <gtest/gtest.h>

#include "overlord/roles/keeper/admission.h"
#include "overlord/roles/keeper/keeper_bench_test.h"

namespace overlord::keeper {
namespace {

using PeerNames = std::vector<std::string>;

struct Opened : KeeperBench {
  explicit Opened(KeeperJob of = two_ranks()) : KeeperBench(std::move(of)) {}

  // All ranks in one attempt.
  void serve(uint32_t attempt = 1) {
    attach(0, attempt);
    attach(1, attempt);
    begun();
  }
  void begun() {
    on(Begun{Status()});
    for (const protocol::ProcessRoles& group : state.serving()->supervisor.groups()) {
      connect(group.name, group.generation);
    }
  }
  void last_words() { on(Expired{Timer::kLastWords, state.partings()}); }
};

TEST(Openings, WhoIsThroughWaitsForTheOthers) {
  Opened bench;
  bench.serve();
  bench.hears("rank-0.1", protocol::Detach{});
  EXPECT_TRUE(bench.attach(0, 2).empty()) << "the other one reads on";
  EXPECT_EQ(bench.state.waiting().size(), 1u);
  bench.hears("rank-1.1", protocol::Detach{});
  EXPECT_EQ(bench.told<protocol::StatusAsked>().size(), 2u) << "last words are heard as ever";
  bench.last_words();
  EXPECT_TRUE(bench.all<End>().empty());
  EXPECT_EQ(bench.all<StopServing>().size(), 1u);
  EXPECT_TRUE(bench.state.waiting().empty());
  bench.attach(1, 2);
  ASSERT_EQ(bench.all<Begin>().size(), 1u);
  EXPECT_EQ(bench.all<Begin>()[0].attempt, 2u);
  EXPECT_EQ(bench.all<Begin>()[0].run, "") << "it is another run of the stream";
}

TEST(Openings, WhoAsksWhileTheLastWordsAreHeardKeepsTheNodeThere) {
  Opened bench;
  bench.serve();
  bench.hears("rank-0.1", protocol::Detach{});
  bench.hears("rank-1.1", protocol::Detach{});
  EXPECT_TRUE(bench.attach(1, 2).empty());
  bench.last_words();
  EXPECT_TRUE(bench.all<End>().empty());
  bench.attach(0, 2);
  EXPECT_EQ(bench.all<Begin>().size(), 1u);
}

// All ranks of a host may be in one process, and attach at once.
TEST(Openings, WhoHasAllRanksIsServedAnew) {
  Opened bench;
  bench.serve();
  for (const Rank rank : {0u, 1u}) {
    bench.hears("rank-" + std::to_string(rank) + ".1", protocol::Detach{});
  }
  protocol::Attach both;
  both.attempt = 2;
  both.job = bench.job.job;
  both.ranks = {0, 1};
  bench.hears("rank-0.2", both);
  bench.last_words();
  EXPECT_EQ(bench.all<StopServing>().size(), 1u);
  EXPECT_EQ(bench.all<Begin>().size(), 1u);
  EXPECT_TRUE(bench.told<protocol::Welcome>().empty()) << "what it would read is over";
}

TEST(Openings, NobodyWaitsForWhoDiesWaiting) {
  Opened bench;
  bench.serve();
  bench.hears("rank-0.1", protocol::Detach{});
  bench.attach(0, 2);
  bench.on(Lost{"rank-0.2"});
  bench.hears("rank-1.1", protocol::Detach{});
  bench.last_words();
  EXPECT_EQ(bench.all<End>().size(), 1u);
}

TEST(Openings, AStartOfAllRanksEndsThoseThatReadAndThoseThatWait) {
  Opened bench;
  bench.serve();
  bench.hears("rank-0.1", protocol::Detach{});
  bench.attach(0, 2);
  bench.attach(0, kOpeningsPerStart + 1);
  PeerNames dropped;
  for (const Drop& drop : bench.all<Drop>()) dropped.push_back(drop.peer);
  EXPECT_EQ(dropped, (PeerNames{"rank-1.1", "rank-0.2", "loaders-0", "constructors-0"}));
  EXPECT_TRUE(bench.state.waiting().empty());
}

TEST(Openings, AFailureIsToldToThoseThatWait) {
  Opened bench;
  bench.serve();
  bench.hears("rank-0.1", protocol::Detach{});
  bench.attach(0, 2);
  bench.on(CannotServe{Status(Code::kResource, "no room")});
  EXPECT_EQ(bench.told<protocol::Refused>(), (PeerNames{"rank-1.1", "rank-0.2"}));
  EXPECT_TRUE(bench.state.failure()->all_told());
  bench.on(Lost{"rank-1.1"});
  EXPECT_EQ(bench.all<End>().size(), 1u);
}

// It may be the first that a keeper hears of, when the one before it has died.
TEST(Openings, AKeeperThatComesAgainServesThoseThatReadBeforeThoseThatWait) {
  KeeperJob job = two_ranks();
  job.comes_again = true;
  job.generation = 2;
  job.begun = 1;
  Opened bench(job);
  EXPECT_TRUE(bench.attach(0, 2).empty());
  protocol::Attach reads;
  reads.attempt = 1;
  reads.job = job.job;
  reads.ranks = {1};
  reads.run = "run";
  bench.hears("rank-1.1", reads);
  EXPECT_TRUE(bench.told<protocol::Refused>().empty());
  bench.on(Expired{Timer::kComeAgain});
  ASSERT_EQ(bench.all<Begin>().size(), 1u) << "without the one that is through";
  EXPECT_EQ(bench.all<Begin>()[0].attempt, 1u);
  Opened nobody(job);
  nobody.attach(0, 2);
  nobody.on(Expired{Timer::kComeAgain});
  EXPECT_EQ(nobody.state.book().attempt(), 2u) << "nobody reads any more";
  EXPECT_TRUE(nobody.all<End>().empty());
}

// --- Several hosts -------------------------------------------------------------------------------

protocol::Attach of_second_host(const KeeperJob& job, uint32_t attempt) {
  protocol::Attach out;
  out.attempt = attempt;
  out.job = job.job;
  out.ranks = {1};
  return out;
}

KeeperJob leads() {
  KeeperJob job = two_ranks();
  job.alone = false;
  job.local = {0};
  return job;
}

TEST(Openings, AHostAllOfWhoseRanksAreThroughWaitsForThoseOfTheOthers) {
  Opened bench(leads());
  bench.attach(0);
  bench.hears("host-1@1", of_second_host(bench.job, 1));
  bench.begun();
  bench.hears("host-1@1", of_second_host(bench.job, 2));
  EXPECT_TRUE(bench.all<Drop>().empty());
  EXPECT_EQ(bench.state.book().attached().size(), 1u);
  bench.hears("rank-0.1", protocol::Detach{});
  bench.attach(0, 2);
  bench.last_words();
  ASSERT_EQ(bench.all<Begin>().size(), 1u);
  EXPECT_EQ(bench.all<Begin>()[0].attempt, 2u);
}

// The next node of that host counts from the start, and its processes have the same names.
TEST(Openings, ProcessesOfAnotherHostAreOfOneAttempt) {
  Opened bench(leads());
  bench.attach(0);
  bench.hears("host-1@1", of_second_host(bench.job, 1));
  bench.begun();
  bench.hears("host-1@1", protocol::Roster{{{"h1-constructors-0", 3, {}, "there:1", 1}}});
  bench.connect("h1-constructors-0", 3);
  bench.hears("rank-0.1", protocol::Detach{});
  bench.attach(0, 2);
  bench.on(Lost{"host-1@1"});
  bench.last_words();
  PeerNames dropped;
  for (const Drop& drop : bench.all<Drop>()) dropped.push_back(drop.peer);
  EXPECT_EQ(dropped, (PeerNames{"loaders-0", "constructors-0", "h1-constructors-0"}));
  bench.hears("host-1@2", of_second_host(bench.job, 2));
  bench.begun();
  bench.hears("host-1@2", protocol::Roster{{{"h1-constructors-0", 1, {}, "there:2", 1}}});
  protocol::Hello hello;
  hello.name = "h1-constructors-0";
  hello.attempt = 1;
  EXPECT_FALSE(admit(bench.state, hello).ok()) << "it calls a lead that it has lost";
  hello.attempt = 2;
  EXPECT_TRUE(admit(bench.state, hello).ok());
}

TEST(Openings, ANodeThatFollowsAsksItsLeadAgainOverTheLinkThatThereIs) {
  KeeperJob job = two_ranks();
  job.leads = job.alone = false;
  Opened bench(job);
  bench.attach(0);
  bench.attach(1);
  bench.connect("lead");
  bench.hears("lead", protocol::Welcome{});
  bench.begun();
  for (const Rank rank : {0u, 1u}) {
    bench.hears("rank-" + std::to_string(rank) + ".1", protocol::Detach{});
    bench.attach(rank, 2);
  }
  bench.last_words();
  EXPECT_EQ(bench.told<protocol::Attach>(), PeerNames{"lead"});
  EXPECT_TRUE(bench.all<CallLead>().empty());
  // One that has ended with the reading before is followed by the next.
  bench.on(Lost{"lead"});
  EXPECT_TRUE(bench.told<protocol::Refused>().empty());
  EXPECT_EQ(bench.all<CallLead>().size(), 1u);
  bench.connect("lead");
  EXPECT_EQ(bench.told<protocol::Attach>(), PeerNames{"lead"});
}

}  // namespace
}  // namespace overlord::keeper
