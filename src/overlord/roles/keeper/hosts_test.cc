// Where a keeper wants groups to live, while hosts come and go.
#include "overlord/roles/keeper/hosts.h"

#include <gtest/gtest.h>

#include <memory>

#include "overlord/roles/keeper/keeper_bench_test.h"
#include "overlord/roles/keeper/rosters.h"

namespace overlord::keeper {
namespace hosts_test {

constexpr const char* kHost = "joined-a@1";

// Four groups of loaders beside a constructor, on a host of two cores.
KeeperJob four_groups() {
  KeeperJob job;
  job.job = digest_of("job");
  job.ranks = job.local = {0};
  job.gives.cores = 2;
  for (uint32_t i = 0; i < 4; ++i) {
    job.groups.push_back({"loaders-" + std::to_string(i), 1, {protocol::loader_address(0, i)}});
  }
  job.groups.push_back({"constructors-0", 1, {protocol::constructor_address(0)}});
  auto views = std::make_shared<model::ViewTable>();
  views->by_rank.resize(2);
  job.views = views;
  return job;
}

struct Bench : KeeperBench {
  explicit Bench(KeeperJob of = four_groups()) : KeeperBench(std::move(of)) {}

  void joins(const std::string& host) { hears(host, protocol::Join{job.job, {2}}); }
  void serve() {
    attach(0);
    on(Begun{Status()});
  }
  size_t placed_on(const std::string& host) const {
    size_t count = 0;
    for (const Place& place : all<Place>()) count += place.group.host == host;
    return count;
  }
};

TEST(KeeperHosts, OneThatIsThereBeforeHasItsShareFromTheStart) {
  Bench bench;
  bench.joins(kHost);
  bench.serve();
  EXPECT_EQ(bench.placed_on(kHost), 2u);
  EXPECT_EQ(bench.placed_on(""), 3u) << "two of loaders, and the constructors";
}

TEST(KeeperHosts, SpareCoresOfHostsWithRanksComeFirst) {
  KeeperJob job = four_groups();
  job.gives.cores = 3;
  Bench bench(std::move(job));
  bench.joins(kHost);
  bench.serve();
  EXPECT_EQ(bench.placed_on(kHost), 1u);
  const auto reasons = reasons_of_homes(bench.state);
  EXPECT_EQ(reasons.size(), 4u) << "of those that may move";
}

TEST(KeeperHosts, WhatSourcesCostIsTheirWork) {
  KeeperJob job = four_groups();
  job.groups[3].roles = {protocol::loader_address(1, 0)};
  job.slot_millicores = {500, 2500};  // four cores' worth, most of it in one group
  Bench bench(std::move(job));
  bench.joins(kHost);
  bench.serve();
  std::map<std::string, std::string> host;
  for (const Place& place : bench.all<Place>()) host[place.group.name] = place.group.host;
  for (const char* name : {"loaders-0", "loaders-1", "loaders-2"}) {
    EXPECT_NE(host[name], host["loaders-3"]);
  }
}

TEST(KeeperHosts, OneThatJoinsLateGetsGroupsThatEndAndComeAgain) {
  Bench bench;
  bench.serve();
  bench.joins(kHost);
  const std::vector<Kill> moved = bench.all<Kill>();
  ASSERT_EQ(moved.size(), 2u);
  for (int time = 0; time < 20; ++time) {  // more often than a group may fail
    const uint32_t generation = bench.state.serving()->supervisor.find(moved[0].name)->generation;
    bench.on(Ended{{moved[0].name, generation, "signal 9", "", false, time > 0}});
    ASSERT_EQ(bench.placed_on(kHost), 1u) << "neither a move nor a lost host is a failure";
  }
}

TEST(KeeperHosts, OneThatLeavesHandsOverAndNobodyElseMoves) {
  Bench bench;
  bench.joins(kHost);
  bench.serve();
  const auto placed = bench.all<Place>();
  bench.on(Lost{kHost});
  EXPECT_TRUE(bench.all<Kill>().empty());
  for (const Place& place : placed) {
    if (place.group.host.empty()) continue;
    bench.on(Ended{{place.group.name, 1, "the loss of its host", "", false, true}});
    EXPECT_EQ(bench.placed_on(""), 1u);
  }
}

TEST(KeeperHosts, OneThatIsShortOfMemoryHandsOverTheLargestOneAtATime) {
  KeeperJob job = four_groups();
  job.gives.cores = 1;
  job.groups[3].roles = {protocol::loader_address(1, 0)};
  job.slot_millicores = {500, 900};
  Bench bench(std::move(job));
  bench.hears(kHost, protocol::Join{bench.job.job, {8}});
  bench.serve();
  const std::map<std::string, GroupHome>& homes = bench.state.serving()->homes;
  const auto wanted_there = [&] {
    size_t count = 0;
    for (const auto& [name, home] : homes) count += home.wanted == kHost ? 1 : 0;
    return count;
  };
  const size_t before = wanted_there();
  ASSERT_GE(before, 2u);
  ASSERT_EQ(homes.at("loaders-3").wanted, kHost);
  bench.hears(kHost, protocol::HostPressed{true});
  EXPECT_EQ(homes.at("loaders-3").wanted, "");
  EXPECT_EQ(wanted_there(), before - 1) << "and nobody came in its place";
  ASSERT_EQ(bench.all<Kill>().size(), 1u);
  bench.hears(kHost, protocol::HostPressed{true});
  EXPECT_TRUE(bench.all<Kill>().empty()) << "it has not gone yet";
  bench.on(Ended{{"loaders-3", 1, "signal 9", "", false, false}});
  EXPECT_EQ(bench.placed_on(""), 1u);
  bench.hears(kHost, protocol::HostPressed{true});
  EXPECT_EQ(wanted_there(), before - 2);
  const std::string next = bench.all<Kill>().at(0).name;
  bench.on(Ended{{next, 1, "signal 9", "", false, false}});
  bench.hears(kHost, protocol::HostPressed{false});
  EXPECT_EQ(wanted_there(), before - 1) << "one comes back";
  bench.hears("joined-nobody@1", protocol::HostPressed{true});
  EXPECT_TRUE(bench.effects.empty());
}

TEST(KeeperHosts, OneThatIsLostIsRememberedAndOneThatLeavesIsNot) {
  Bench bench;
  bench.joins(kHost);
  bench.joins("joined-b@2");
  bench.serve();
  bench.hears(kHost, protocol::Detach{});
  bench.on(Lost{kHost});
  bench.on(Lost{"joined-b@2"});
  EXPECT_TRUE(bench.state.hosts().empty());
  EXPECT_EQ(bench.state.lost_hosts(), (std::vector<std::string>{"joined-b@2"}));
  for (int i = 0; i < 100; ++i) {
    bench.joins("joined-c@" + std::to_string(i));
    bench.on(Lost{"joined-c@" + std::to_string(i)});
  }
  EXPECT_EQ(bench.state.lost_hosts().size(), 16u);
  EXPECT_EQ(bench.state.lost_hosts().back(), "joined-c@99");
}

// Its constructors have retired with their tree, and those of the next one live elsewhere.
TEST(KeeperHosts, AGroupWithoutRolesIsNoGroupOfLoaders) {
  std::vector<protocol::ProcessRoles> groups = four_groups().groups;
  groups.back().roles.clear();
  EXPECT_EQ(movable_groups(groups, {}).size(), 4u);
}

TEST(KeeperHosts, OneOfAnotherJobIsRefused) {
  Bench bench;
  bench.on(Heard{kHost, protocol::Join{digest_of("another"), {2}}});
  ASSERT_EQ(bench.all<Tell>().size(), 1u);
  EXPECT_TRUE(std::holds_alternative<protocol::Refused>(bench.all<Tell>()[0].control));
  EXPECT_TRUE(bench.state.hosts().empty());
}

// Whoever fetches from loaders must know on which host they are.
TEST(KeeperHosts, RostersNameTheHostThatAGroupWasPlacedOn) {
  KeeperJob job = four_groups();
  job.ranks = {0, 1};
  job.alone = false;
  Bench bench(std::move(job));
  protocol::Attach follower;
  follower.attempt = 1;
  follower.job = bench.job.job;
  follower.ranks = {1};
  follower.gives.cores = 1;
  bench.on(Heard{"host-1@9", follower});
  bench.joins(kHost);
  bench.serve();
  std::map<uint32_t, size_t> groups;
  for (const protocol::ProcessRoles& process : bench.state.rosters().own.processes) {
    ++groups[process.host];
  }
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[1], 1u) << "the host of rank 1";
  EXPECT_EQ(groups.rbegin()->first, 1u << 31) << "one without ranks";
}

TEST(HostRosters, HaveWhatALeadRunsOnThisHost) {
  HostRosters rosters{1, {{{"h1-constructors-0", 2, {}, "", 1}}}, {}};
  rosters.elsewhere["lead"] = {{{"h1-constructors-0", 1, {}, "", 1}, {"loaders-3", 1, {}, "", 1}}};
  const std::vector<protocol::ProcessRoles> all = rosters.all().processes;
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].generation, 2u) << "what others say of ours is older";
  EXPECT_EQ(all[1].name, "loaders-3");
}

}  // namespace hosts_test
}  // namespace overlord::keeper
