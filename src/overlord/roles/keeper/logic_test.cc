#include "overlord/roles/keeper/logic.h"

#include <gtest/gtest.h>

#include "overlord/roles/keeper/admission.h"
#include "overlord/roles/keeper/keeper_bench_test.h"

namespace overlord::keeper {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

struct Bench : KeeperBench {
  explicit Bench(KeeperJob of = two_ranks()) : KeeperBench(std::move(of)) {}

  void serve(const std::string& run = "") {
    attach(0);
    attach(1);
    Begun begun{Status()};
    begun.run = run;
    on(begun);
    connect("loaders-0");
    connect("constructors-0");
  }
};

using Names = std::vector<std::string>;

TreePlaced tree(uint32_t version, StepIndex first) {
  return {{version, first, {}, {}},
          {{"constructors-0", 1, {protocol::constructor_address(0, version)}}}};
}

TEST(KeeperLogic, ServesWhenAllAreHereAndWelcomesWhenAllLive) {
  Bench bench;
  EXPECT_TRUE(bench.attach(0).empty());
  bench.attach(1, 1, "");
  ASSERT_EQ(bench.all<Begin>().size(), 1u);
  bench.on(Begun{Status(), "state"});
  ASSERT_EQ(bench.all<Place>().size(), 2u);
  EXPECT_EQ(bench.all<Place>()[0].group.name, "loaders-0");
  bench.connect("loaders-0");
  EXPECT_TRUE(bench.told<protocol::Welcome>().empty());
  bench.connect("constructors-0");
  EXPECT_EQ(bench.told<protocol::Welcome>(), (Names{"rank-0.1", "rank-1.1"}));
}

TEST(KeeperLogic, RestartsWhatEndsAndTellsEverybody) {
  Bench bench;
  bench.serve();
  bench.on(Ended{{"constructors-0", 1, "signal 9", ""}});
  ASSERT_EQ(bench.all<Place>().size(), 1u);
  EXPECT_EQ(bench.all<Place>()[0].group.generation, 2u);
  EXPECT_EQ(bench.told<protocol::Roster>(),
            (Names{"loaders-0", "constructors-0", "rank-0.1", "rank-1.1"}));
  EXPECT_EQ(bench.all<SetRoster>()[0].roster.processes[1].generation, 2u);
  EXPECT_TRUE(bench.on(Ended{{"constructors-0", 1, "signal 9", ""}}).empty()) << "told twice";
  bench.on(Lost{"constructors-0"});
  EXPECT_TRUE(bench.all<Kill>().empty()) << "the link of the dead, not of the new";
}

TEST(KeeperLogic, AKeeperThatStartsAnewFindsWhatLives) {
  KeeperJob job = two_ranks();
  job.generation = 2;
  Bench bench(job);
  bench.connect("loaders-0", 7);
  bench.attach(0);
  bench.attach(1);
  Begun begun{Status()};
  begun.running = {{"loaders-0", 7}};
  begun.trees = {tree(2, 5)};
  bench.on(begun);
  ASSERT_EQ(bench.all<Place>().size(), 1u);
  EXPECT_EQ(bench.all<Place>()[0].group.name, "constructors-0");
  EXPECT_EQ(bench.all<Place>()[0].group.generation, (1u << 16) + 1) << "of no keeper before";
  EXPECT_EQ(bench.told<protocol::TreeTold>(), Names{"loaders-0"});
  EXPECT_EQ(bench.state.serving()->supervisor.groups()[0].generation, 7u);
  bench.on(Ended{{"loaders-0", 7, "signal 9", ""}});
  EXPECT_EQ(bench.all<Place>()[0].group.generation, 8u);
}

TEST(KeeperLogic, KillsTheSilentOnce) {
  Bench bench;
  bench.serve();
  bench.hears("loaders-0", protocol::Beat{});
  bench.on(Watched{}, 10 * kSecond);
  EXPECT_EQ(bench.all<Kill>().size(), 2u);
  EXPECT_TRUE(bench.on(Watched{}, 11 * kSecond).empty());
}

TEST(KeeperLogic, ALinkOfTheDeadIsNotThatOfTheNext) {
  Bench bench;
  bench.connect("loaders-0");
  bench.connect("constructors-0");  // and dies before all are here
  bench.attach(0);
  bench.attach(1);
  Begun begun{Status()};
  begun.running = {{"loaders-0", 1}, {"constructors-0", 2}};
  begun.trees = {tree(2, 7)};
  bench.on(begun);
  EXPECT_EQ(bench.told<protocol::TreeTold>(), Names{"loaders-0"});
  EXPECT_FALSE(bench.state.connected().contains("constructors-0"));
  bench.connect("constructors-0", 2);
  EXPECT_EQ(bench.told<protocol::TreeTold>(), Names{"constructors-0"});
}

TEST(KeeperLogic, ATreeIsToldToProcessesThenToTrainersThenToThePlanner) {
  Bench bench;
  bench.serve();
  bench.on(TreeChanged{tree(2, 7)});
  EXPECT_TRUE(bench.all<Place>().empty()) << "its constructors live in the process that is there";
  EXPECT_EQ(bench.told<protocol::TreeTold>(), (Names{"loaders-0", "constructors-0"}));
  bench.hears("constructors-0", protocol::TreeTaken{2});
  EXPECT_EQ(bench.state.tree_waits(), "the mesh of step 7 waits for loaders-0");
  bench.hears("loaders-0", protocol::TreeTaken{2});
  EXPECT_EQ(bench.told<protocol::TreeTold>(), (Names{"rank-0.1", "rank-1.1"}));
  bench.hears("rank-1.1", protocol::TreeTaken{2});
  EXPECT_TRUE(bench.all<TreeReady>().empty());
  bench.hears("rank-0.1", protocol::TreeTaken{2});
  EXPECT_EQ(bench.all<TreeReady>().size(), 1u);
  EXPECT_TRUE(bench.state.tree_waits().empty());
}

// What it had of the stream before is of no use to anybody, so it may be a new process.
TEST(KeeperLogic, WhoHasNotBegunWithATreeThatPlacesStepsAgainMayComeToItAlone) {
  Bench bench;
  bench.serve();
  TreePlaced placed = tree(2, 7);
  bench.on(TreeChanged{placed});
  EXPECT_FALSE(bench.state.begin_with_a_tree({0})) << "nothing is placed again";
  for (const char* peer : {"constructors-0", "loaders-0", "rank-0.1", "rank-1.1"}) {
    bench.hears(peer, protocol::TreeTaken{2});
  }
  placed = tree(3, 7);
  placed.tree.again = true;
  placed.tree.ranks = {0};
  bench.on(TreeChanged{placed});
  EXPECT_TRUE(bench.state.begin_with_a_tree({0}));
  EXPECT_TRUE(bench.state.begin_with_a_tree({1})) << "it has no place, and waits";
  bench.hears("rank-0.1", protocol::TreeTaken{3});
  EXPECT_FALSE(bench.state.begin_with_a_tree({0})) << "it may have got what nobody keeps";
  EXPECT_TRUE(bench.state.begin_with_a_tree({1}));
}

TEST(KeeperLogic, OfATreeWhoDiesIsToldAgainAndWhoLeavesIsNotWaitedFor) {
  Bench bench;
  bench.serve();
  bench.on(TreeChanged{tree(2, 7)});
  bench.hears("constructors-0", protocol::TreeTaken{2});
  bench.on(Ended{{"constructors-0", 1, "signal 9", ""}});
  bench.hears("loaders-0", protocol::TreeTaken{2});
  EXPECT_TRUE(bench.told<protocol::TreeTold>().empty());
  bench.connect("constructors-0", 2);
  EXPECT_EQ(bench.told<protocol::TreeTold>(), Names{"constructors-0"});
  bench.hears("constructors-0", protocol::TreeTaken{2});
  EXPECT_EQ(bench.told<protocol::TreeTold>().size(), 2u) << "now the trainers";
  bench.hears("rank-1.1", protocol::TreeTaken{2});
  bench.hears("rank-0.1", protocol::Detach{});
  EXPECT_EQ(bench.all<TreeReady>().size(), 1u);
  bench.on(TreeChanged{tree(3, 9)});
  bench.connect("loaders-0");
  EXPECT_EQ(bench.told<protocol::TreeTold>(), (Names{"loaders-0", "loaders-0"})) << "of both";
}

TEST(KeeperLogic, ALaterAttemptFencesAndServesInLaterGenerations) {
  constexpr uint32_t kLater = kOpeningsPerStart + 1;
  Bench bench;
  bench.serve();
  bench.attach(0, kLater);
  EXPECT_EQ(bench.all<Drop>().size(), 4u) << "two trainers, two processes";
  EXPECT_EQ(bench.all<StopServing>().size(), 1u);
  bench.attach(1, kLater);
  ASSERT_EQ(bench.all<Begin>().size(), 1u);
  EXPECT_EQ(bench.all<Begin>()[0].attempt, kLater);
  bench.on(Begun{Status()});
  EXPECT_EQ(bench.all<Place>()[0].group.generation, 2u);
  protocol::Hello old;
  old.name = "loaders-0";
  EXPECT_FALSE(admit(bench.state, old).ok());
}

TEST(KeeperLogic, AFailureIsToldToEveryRankOnceAndEndsTheNode) {
  Bench bench;
  bench.attach(0);
  bench.on(Expired{Timer::kAttach});
  EXPECT_EQ(bench.told<protocol::Refused>(), Names{"rank-0.1"});
  EXPECT_EQ(bench.state.failure()->untold(), std::vector<Rank>{1});
  EXPECT_TRUE(bench.all<End>().empty()) << "one that was told has not left";
  bench.attach(1);
  EXPECT_EQ(bench.told<protocol::Refused>(), Names{"rank-1.1"});
  EXPECT_TRUE(bench.state.failure()->all_told());
  bench.on(Lost{"rank-0.1"});
  EXPECT_EQ(bench.all<End>().size(), 1u);
}

TEST(KeeperLogic, ANodeThatStaysTellsLateRanksAndServesTheNextAttempt) {
  KeeperJob job = two_ranks();
  job.stays = true;
  Bench bench(job);
  bench.attach(0);
  bench.on(CannotServe{Status(Code::kResource, "no room")});
  bench.on(Lost{"rank-0.1"});
  EXPECT_TRUE(bench.all<End>().empty());
  ASSERT_EQ(bench.all<After>().size(), 1u);
  bench.attach(1);
  EXPECT_EQ(bench.told<protocol::Refused>(), Names{"rank-1.1"});
  bench.attach(0);
  bench.attach(1);
  EXPECT_EQ(bench.all<Begin>().size(), 1u) << "another try";
}

TEST(KeeperLogic, LastWordsAreHeardBeforeTheEnd) {
  Bench bench;
  bench.serve();
  bench.hears("rank-0.1", protocol::Detach{});
  EXPECT_TRUE(bench.told<protocol::StatusAsked>().empty());
  bench.on(Lost{"rank-1.1"});
  EXPECT_EQ(bench.told<protocol::StatusAsked>(), (Names{"loaders-0", "constructors-0"}));
  bench.hears("loaders-0", protocol::StatusTold{"much"});
  EXPECT_EQ(bench.all<NoteStatus>().size(), 1u);
  EXPECT_TRUE(bench.all<End>().empty());
  bench.on(Expired{Timer::kLastWords, bench.state.partings()});
  EXPECT_EQ(bench.all<End>().size(), 1u);
}

// Of two nodes that follow each other's news neither may answer an answer.
TEST(KeeperLogic, RostersOfOtherHostsAreNotSentBack) {
  KeeperJob job = two_ranks();
  job.leads = false;
  job.alone = false;
  Bench bench(job);
  bench.attach(0);
  bench.attach(1);
  EXPECT_EQ(bench.all<CallLead>().size(), 1u);
  bench.connect("lead");
  EXPECT_EQ(bench.told<protocol::Attach>(), Names{"lead"});
  bench.hears("lead", protocol::Welcome{});
  bench.on(Begun{Status()});
  bench.hears("lead", protocol::Roster{{{"loaders-9", 1, {}, "there:1", 9}}});
  EXPECT_EQ(bench.told<protocol::Roster>(), (Names{"loaders-0", "constructors-0"}));
  bench.connect("constructors-0");
  EXPECT_EQ(bench.told<protocol::Roster>().back(), "lead");
}

struct Following : Bench {
  explicit Following(int64_t lead_back_ns) : Bench(following(lead_back_ns)) {
    attach(0);
    attach(1);
    connect("lead");
    hears("lead", welcome(1));
    on(Begun{Status()});
    connect("loaders-0");
    connect("constructors-0");
  }
  static KeeperJob following(int64_t lead_back_ns) {
    KeeperJob job = two_ranks();
    job.leads = job.alone = false;
    job.lead_back_ns = lead_back_ns;
    return job;
  }
  static protocol::Welcome welcome(uint32_t term, std::string run = "run") {
    protocol::Welcome out;
    out.run = std::move(run);
    out.term = term;
    return out;
  }
};

TEST(KeeperLogic, ALeadThatIsRunAgainIsCalledAndToldWhatLivesHere) {
  Following bench(kSecond);
  bench.on(Lost{"lead"});
  EXPECT_TRUE(bench.told<protocol::Refused>().empty());
  EXPECT_EQ(bench.all<CallLead>().size(), 1u);
  EXPECT_EQ(bench.all<After>()[0].delay_ns, kSecond);
  bench.connect("lead");
  ASSERT_EQ(bench.told<protocol::Attach>(), Names{"lead"});
  const auto& attach = std::get<protocol::Attach>(bench.all<Tell>()[0].control);
  EXPECT_EQ(attach.run, "run") << "it goes on with what it was welcomed to";
  bench.on(Lost{"lead"});
  EXPECT_EQ(bench.all<CallLead>().size(), 1u) << "it died again";
  EXPECT_TRUE(bench.all<After>().empty()) << "and is waited for no longer than from the first time";
  bench.connect("lead");
  bench.hears("lead", Following::welcome(2));
  EXPECT_EQ(bench.told<protocol::Roster>().front(), "lead") << "before anybody here calls it";
  EXPECT_EQ(bench.all<SetRoster>()[0].roster.term, 2u);
  EXPECT_TRUE(bench.on(Expired{Timer::kLeadBack, 1}).empty()) << "it is back";
}

TEST(KeeperLogic, ALeadThatDoesNotComeBackEndsTheJob) {
  Following late(kSecond), other(kSecond), never(0);
  late.on(Lost{"lead"});
  late.on(Expired{Timer::kLeadBack, 1});
  EXPECT_EQ(late.told<protocol::Refused>().size(), 3u) << "its ranks, and the lead if it is there";
  EXPECT_TRUE(late.connect("lead").empty()) << "it comes too late";
  EXPECT_TRUE(late.hears("lead", Following::welcome(2)).empty());
  other.on(Lost{"lead"});
  other.hears("lead", Following::welcome(2, "another run"));
  EXPECT_EQ(other.told<protocol::Refused>().size(), 3u);
  never.on(Lost{"lead"});
  EXPECT_EQ(never.told<protocol::Refused>().size(), 3u) << "nobody runs it again";
}

TEST(KeeperLogic, ALeadThatDiesBeforeItsFirstWordIsFollowedByTheNext) {
  Bench bench(Following::following(kSecond));
  bench.attach(0);
  bench.attach(1);
  bench.connect("lead");
  bench.on(Lost{"lead"});
  EXPECT_TRUE(bench.told<protocol::Refused>().empty());
  EXPECT_EQ(bench.all<CallLead>().size(), 1u);
  bench.connect("lead");
  ASSERT_EQ(bench.told<protocol::Attach>(), Names{"lead"});
  EXPECT_EQ(std::get<protocol::Attach>(bench.all<Tell>()[0].control).run, "") << "it begins";
}

TEST(KeeperLogic, ALeadThatAnotherHasSucceededEndsAndTellsNobodyThatTheJobDoes) {
  KeeperJob job = two_ranks();
  job.alone = false;
  job.stays = true;
  Bench bench(job);
  bench.attach(0);
  bench.attach(1);
  Begun begun{Status(Code::kUnavailable, "the host at b:1 leads")};
  begun.superseded = true;
  bench.on(begun);
  EXPECT_TRUE(bench.told<protocol::Refused>().empty());
  EXPECT_EQ(bench.all<End>().size(), 1u);
}

TEST(KeeperLogic, RanksAttachToALeadFromAnyHost) {
  KeeperJob job = two_ranks();
  job.alone = false;
  job.local = {0};
  EXPECT_TRUE(may_attach_so(job, "rank-0@1.1", {0}).ok());
  EXPECT_FALSE(may_attach_so(job, "rank-1@1.1", {1}).ok()) << "said to be on another host";
  EXPECT_TRUE(may_attach_so(job, "host-1@1", {1}).ok());
  EXPECT_TRUE(may_attach_so(job, "host-0@1", {0, 1}).ok()) << "it was found to be on another";
}

// Two ranks that read for themselves, with a lead that may have both of them.
KeeperJob two_groups() {
  KeeperJob job = two_ranks();
  job.alone = false;
  job.groups[1].roles.push_back(protocol::constructor_address(1));
  job.cores = 16;
  auto views = std::make_shared<model::ViewTable>();
  views->by_rank.resize(2);
  views->by_rank[1].bucket = 1;
  job.views = views;
  return job;
}

protocol::Attach of_host(const KeeperJob& job, std::vector<Rank> ranks, std::string run = "") {
  protocol::Attach out;
  out.attempt = 1;
  out.job = job.job;
  out.ranks = std::move(ranks);
  out.run = std::move(run);
  return out;
}

TEST(KeeperLogic, ConstructorsOfALeadAreThoseOfRanksThatHaveCome) {
  Bench bench(two_groups());
  bench.attach(0);
  bench.hears("host-1@1", of_host(bench.job, {1}));
  const auto* serving = bench.state.serving();
  ASSERT_NE(serving, nullptr);
  EXPECT_EQ(serving->local, std::vector<Rank>{0});
  ASSERT_EQ(serving->supervisor.groups().size(), 2u);
  EXPECT_EQ(serving->supervisor.groups()[1].roles,
            std::vector<protocol::Address>{protocol::constructor_address(0)});
  EXPECT_NE(bench.state.rosters().host, 0u) << "the host of rank 1 is called by its rank";
}

TEST(KeeperLogic, ALeadToWhichNoRankHasComeGivesItsCoresToLoaders) {
  Bench bench(two_groups());
  bench.hears("host-1@1", of_host(bench.job, {1}));
  bench.hears("host-0@1", of_host(bench.job, {0}));
  const auto* serving = bench.state.serving();
  ASSERT_NE(serving, nullptr);
  EXPECT_TRUE(serving->local.empty());
  ASSERT_EQ(serving->supervisor.groups().size(), 1u);
  EXPECT_EQ(serving->gives.cores, 15u);
}

TEST(KeeperLogic, ALeadThatComesAgainKnowsWhichRanksHadComeToIt) {
  KeeperJob job = two_groups();
  job.comes_again = true;
  job.came_before = {0};
  Bench late(job);
  late.hears("host-1@1", of_host(job, {1}, "run"));
  late.on(Expired{Timer::kComeAgain});
  ASSERT_NE(late.state.serving(), nullptr);
  EXPECT_EQ(late.state.serving()->local, std::vector<Rank>{0}) << "rank 0 may still come";
  Bench other(job);
  other.hears("rank-0.1", of_host(job, {0}, "run"));
  other.on(Expired{Timer::kComeAgain});
  ASSERT_NE(other.state.serving(), nullptr);
  EXPECT_EQ(other.state.serving()->local, std::vector<Rank>{0}) << "the host of rank 1 has its own";
}

// --- A keeper that comes again -------------------------------------------------------------------

KeeperJob comes_again() {
  KeeperJob job = two_ranks();
  job.comes_again = true;
  job.generation = 2;
  job.living = {{"loaders-0", 4}, {"constructors-0", 1}};
  return job;
}

TEST(KeeperLogic, WhatTheKeeperBeforeItLeftIsLetInAndAdopted) {
  Bench bench(comes_again());
  protocol::Hello hello;
  hello.name = "loaders-0";
  hello.generation = 4;
  EXPECT_TRUE(admit(bench.state, hello).ok());
  hello.generation = 3;
  EXPECT_FALSE(admit(bench.state, hello).ok()) << "of an earlier time";
  bench.connect("loaders-0", 4);
  bench.hears("rank-0.1", of_host(bench.job, {0}, "run"));
  bench.hears("rank-1.1", of_host(bench.job, {1}, "run"));
  ASSERT_EQ(bench.all<Begin>().size(), 1u);
  EXPECT_EQ(bench.all<Begin>()[0].run, "run");
  Begun begun{Status()};
  begun.run = "run";
  begun.term = 7;
  begun.running = {{"loaders-0", 4}};
  bench.on(begun);
  ASSERT_EQ(bench.all<Place>().size(), 1u) << "what lives goes on";
  EXPECT_EQ(bench.all<Place>()[0].group.name, "constructors-0");
  const uint32_t generation = bench.all<Place>()[0].group.generation;
  EXPECT_GT(generation, 4u) << "newer than all that it has not heard of";
  EXPECT_EQ(bench.all<SetRoster>()[0].roster.term, 7u);
  bench.connect("constructors-0", generation);
  ASSERT_EQ(bench.told<protocol::Welcome>(), (Names{"rank-0.1", "rank-1.1"}));
  for (const Tell& tell : bench.all<Tell>()) {
    const auto* welcome = std::get_if<protocol::Welcome>(&tell.control);
    if (welcome == nullptr) continue;
    EXPECT_EQ(welcome->run, "run");
    EXPECT_EQ(welcome->term, 7u);
  }
}

TEST(KeeperLogic, RanksThatDoNotComeAgainAreGone) {
  Bench bench(comes_again());
  bench.hears("rank-0.1", of_host(bench.job, {0}, "run"));
  bench.on(Expired{Timer::kComeAgain});
  ASSERT_EQ(bench.all<Begin>().size(), 1u);
  EXPECT_EQ(bench.state.book().gone(), std::vector<Rank>{1});
  Bench nobody(comes_again());
  nobody.on(Expired{Timer::kComeAgain});
  EXPECT_EQ(nobody.all<End>().size(), 1u) << "there is nobody to serve";
  Bench beginning(comes_again());
  beginning.attach(0);
  EXPECT_TRUE(beginning.on(Expired{Timer::kComeAgain}).empty()) << "all are awaited";
}

TEST(KeeperLogic, ARankWhoseLinkBrokeIsWelcomedAgain) {
  Bench bench;
  bench.serve("run");
  bench.on(Lost{"rank-1.1"});
  bench.hears("rank-1.1", of_host(bench.job, {1}, "run"));
  EXPECT_TRUE(bench.all<Begin>().empty()) << "it is served already";
  EXPECT_EQ(bench.told<protocol::Roster>(), Names{"rank-1.1"});
  EXPECT_EQ(bench.told<protocol::Welcome>(), Names{"rank-1.1"});
}

// Or it waits for its welcome, and everybody for it.
TEST(KeeperLogic, WhoComesWhileATreeIsOnItsWayIsWelcomedWithIt) {
  Bench bench;
  bench.serve("run");
  bench.on(TreeChanged{tree(2, 7)});
  bench.on(Lost{"rank-1.1"});
  bench.hears("rank-1.1", of_host(bench.job, {1}, "run"));
  EXPECT_TRUE(bench.told<protocol::Welcome>().empty());
  bench.hears("constructors-0", protocol::TreeTaken{2});
  bench.hears("loaders-0", protocol::TreeTaken{2});
  EXPECT_EQ(bench.told<protocol::Welcome>(), Names{"rank-1.1"});
}

TEST(KeeperLogic, ABeatOfATrainerIsAnswered) {
  Bench bench;
  bench.serve();
  bench.hears("rank-0.1", protocol::Beat{});
  EXPECT_EQ(bench.told<protocol::Beat>(), Names{"rank-0.1"});
  bench.hears("loaders-0", protocol::Beat{});
  EXPECT_TRUE(bench.told<protocol::Beat>().empty());
}

TEST(KeeperLogic, WhoIsSupersededTellsNobodyThatTheStreamFailed) {
  Bench bench;
  bench.serve();
  bench.on(Superseded{Status(Code::kUnavailable, "term 3 has the journal")});
  EXPECT_EQ(bench.all<End>().size(), 1u);
  EXPECT_TRUE(bench.told<protocol::Refused>().empty());
  EXPECT_TRUE(bench.all<StopServing>().empty()) << "what lives is the other one's";
}

const protocol::Address kSlot = protocol::loader_address(0, 0);

KeeperJob with_shadow() {
  KeeperJob job = two_ranks();
  job.groups.push_back({"loaders-1", 1, {}});
  job.groups.back().standby = {kSlot};
  return job;
}

std::vector<protocol::Address> roles_in(const Bench& bench, const std::string& name) {
  return bench.state.serving()->supervisor.find(name)->roles;
}

TEST(KeeperLogic, AShadowIsPromotedAsSoonAsTheLinkIsLost) {
  Bench bench(with_shadow());
  bench.serve();
  bench.connect("loaders-1");
  bench.on(Lost{"loaders-0"});
  EXPECT_EQ(bench.all<Kill>().size(), 1u);
  EXPECT_TRUE(bench.all<Place>().empty()) << "nobody waits for a process to start";
  ASSERT_EQ(bench.all<SetRoster>().size(), 1u) << "one roster to all";
  const protocol::Roster roster = bench.all<SetRoster>()[0].roster;
  EXPECT_EQ(later_generations(roster).at(kSlot), 2u);
  EXPECT_EQ(roles_in(bench, "loaders-1"), std::vector<protocol::Address>{kSlot});
  bench.on(Ended{{"loaders-0", 1, "signal 9", ""}});
  ASSERT_EQ(bench.all<Place>().size(), 1u);
  EXPECT_EQ(bench.all<Place>()[0].group.name, "loaders-0");
  EXPECT_TRUE(roles_in(bench, "loaders-0").empty()) << "it comes again as the shadow";
  EXPECT_EQ(bench.state.serving()->supervisor.promotions(), 1u);
}

TEST(KeeperLogic, AGroupThatEndsOrIsSilentIsReplacedByShadowsToo) {
  Bench ended(with_shadow());
  ended.serve();
  ended.connect("loaders-1");
  ended.on(Ended{{"loaders-0", 1, "signal 9", ""}});
  EXPECT_EQ(roles_in(ended, "loaders-1").size(), 1u);
  Bench silent(with_shadow());
  silent.serve();
  silent.connect("loaders-1");
  for (const std::string name : {"loaders-1", "constructors-0"}) {
    silent.on(Heard{name, protocol::Beat{}}, 60 * kSecond);
  }
  silent.on(Watched{}, 60 * kSecond);
  EXPECT_EQ(roles_in(silent, "loaders-1").size(), 1u);
}

TEST(KeeperLogic, AShadowTakesOverWhatComesNoFurther) {
  const auto all_speak = [](Bench& bench, uint64_t stuck_ms, int64_t now_ns) {
    for (const std::string name : {"loaders-0", "loaders-1", "constructors-0"}) {
      bench.on(Heard{name, protocol::Beat{"", name == "loaders-0" ? stuck_ms : 0}}, now_ns);
    }
    bench.on(Watched{}, now_ns);
  };
  Bench bench(with_shadow());
  bench.serve();
  bench.connect("loaders-1");
  all_speak(bench, 9000, 60 * kSecond);
  EXPECT_TRUE(bench.all<Kill>().empty()) << "slow is not hung";
  all_speak(bench, 11'000, 61 * kSecond);
  EXPECT_EQ(bench.all<Kill>().size(), 1u);
  EXPECT_EQ(roles_in(bench, "loaders-1").size(), 1u);
  // What is slow wherever it is done has longer the next time.
  const auto& supervisor = bench.state.serving()->supervisor;
  bench.on(Ended{{"loaders-0", 1, "signal 9", ""}}, 61 * kSecond);
  bench.connect("loaders-0", 2);
  bench.on(Heard{"loaders-1", protocol::Beat{"", 19'000}}, 62 * kSecond);
  EXPECT_TRUE(supervisor.stuck().empty());
  bench.on(Heard{"loaders-1", protocol::Beat{"", 21'000}}, 62 * kSecond);
  EXPECT_EQ(supervisor.stuck().size(), 1u);

  Bench alone(with_shadow());
  alone.serve();
  all_speak(alone, 11'000, 60 * kSecond);
  EXPECT_TRUE(alone.all<Kill>().empty()) << "nobody would do it any faster";
}

TEST(KeeperLogic, AShadowThatIsNotThereTakesNothingOver) {
  Bench bench(with_shadow());
  bench.serve();
  bench.on(Ended{{"loaders-0", 1, "signal 9", ""}});
  EXPECT_EQ(roles_in(bench, "loaders-0").size(), 1u);
  EXPECT_EQ(bench.state.serving()->supervisor.promotions(), 0u);
  // Both die, the second before the first is back: it comes again active.
  Bench both(with_shadow());
  both.serve();
  both.connect("loaders-1");
  both.on(Ended{{"loaders-0", 1, "signal 9", ""}});
  both.on(Ended{{"loaders-1", 1, "signal 9", ""}});
  EXPECT_EQ(roles_in(both, "loaders-1").size(), 1u);
  EXPECT_EQ(later_generations(both.all<SetRoster>()[0].roster).at(kSlot), 3u);
}

}  // namespace
}  // namespace overlord::keeper
