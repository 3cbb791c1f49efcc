// Users' functions in planning: the planner waits for them, however late they are; what they answer
// is in the journal before it counts; a bad answer ends all ranks before the same step.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "overlord/plan/cost/cost.h"
#include "overlord/plan/made_up_cost_test.h"
#include "overlord/protocol/journal/journal_record.h"
#include "overlord/sim/scenario.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace callout_test {

// Answers from a journal instead of from the functions.
class RecordedCallouts final : public planner::Callouts {
 public:
  void add(const protocol::JournalRecord& record) {
    const auto* callout = std::get_if<protocol::CalloutRecord>(&record);
    if (callout != nullptr) records_[{callout->step, callout->kind}] = *callout;
  }
  void ask(model::CalloutRequest request, planner::CalloutDone done) override {
    const auto found = records_.find({request.step, request.kind});
    if (found == records_.end()) {
      return done(Status(Code::kUserFunction, "the journal has no answer of this step"));
    }
    if (!(found->second.function == request.function)) {
      return done(Status(Code::kUserFunction, "the journal has the answer of " +
                                                  found->second.function.name + " (version " +
                                                  found->second.function.version + ")"));
    }
    done(found->second.values);
  }
  size_t size() const { return records_.size(); }

 private:
  std::map<std::pair<StepIndex, model::CalloutKind>, protocol::CalloutRecord> records_;
};

constexpr uint64_t kSteps = 10;
using Answer = Result<std::vector<int64_t>>;

// Answers by a script, each after a while of its own; nothing: never.
class ScriptedCallouts final : public planner::Callouts {
 public:
  using Script = std::function<std::optional<Answer>(const model::CalloutRequest&)>;
  explicit ScriptedCallouts(Script script) : script_(std::move(script)) {}

  void ask(model::CalloutRequest request, planner::CalloutDone done) override {
    ++asked;
    std::optional<Answer> answer = script_(request);
    if (!answer) {
      unanswered = std::move(done);
      held = std::move(request);
      return;
    }
    world->post_after(world->dice().delay_ns(50'000'000), [done = std::move(done), answer] {
      done(*answer);
      done(std::vector<int64_t>{});  // said twice: not heard again
    });
  }

  World* world = nullptr;
  uint64_t asked = 0;
  planner::CalloutDone unanswered;
  model::CalloutRequest held;

 private:
  Script script_;
};

Scenario balanced() {
  Scenario scenario = Scenario::small();
  scenario.spec.max_steps = kSteps;
  scenario.axes = {{"pp", 2}, {"dp", 2}};
  model::Strategy& strategy = scenario.spec.strategy;
  strategy.has_cost = true;
  strategy.cost = plan::quadratic_cost("tokens", 0, int64_t{64} << 32, int64_t{1} << 32);
  strategy.balance = model::BalanceMethod::kLptSearch;
  strategy.order = model::OrderMethod::kSearch;
  return scenario;
}

Scenario with_functions() {
  Scenario scenario = balanced();
  scenario.spec.strategy.cost = {};
  scenario.spec.strategy.cost_by = {"mine", "3", 1};
  return scenario;
}

std::vector<int64_t> costs_of(const model::CalloutRequest& request) {
  std::vector<int64_t> costs;
  for (const int64_t s : request.columns[0].values) costs.push_back(64 * s + s * s);
  return costs;
}

// In turn, from the last consumer down.
std::vector<int64_t> seats_of(const model::CalloutRequest& request) {
  std::vector<int64_t> seats;
  for (uint32_t bin = 0; bin < request.bin_ends.size(); ++bin) {
    const uint32_t consumer = request.seats.consumers - 1 - bin % request.seats.consumers;
    seats.push_back(consumer * request.seats.microbatches + bin / request.seats.consumers);
  }
  return seats;
}

std::optional<Answer> sound(const model::CalloutRequest& request) {
  return Answer(request.kind == model::CalloutKind::kCost ? costs_of(request) : seats_of(request));
}

struct AskedJob {
  std::shared_ptr<runtime::MemoryStorage> objects;
  std::unique_ptr<planner::Callouts> callouts;
  std::unique_ptr<SimCluster> cluster;

  SimCluster* operator->() const { return cluster.get(); }
};

AskedJob start(const Scenario& scenario, ScriptedCallouts::Script script, uint64_t seed,
               const protocol::ResumeState* from = nullptr, const Layout& layout = {}) {
  const auto job = scenario.open();
  auto callouts = std::make_unique<ScriptedCallouts>(std::move(script));
  ScriptedCallouts* own = callouts.get();
  const auto state =
      from == nullptr ? host::start_state(*job) : *host::resume_from(*job, *from, {});
  AskedJob run{scenario.objects, std::move(callouts),
               std::make_unique<SimCluster>(job, *scenario.objects, scenario.all_ranks(),
                                            scenario.options, state, seed, layout, own)};
  own->world = &run.cluster->world();
  return run;
}

ScriptedCallouts& scripted(const AskedJob& run) {
  return static_cast<ScriptedCallouts&>(*run.callouts);
}

std::vector<Digest> plans(const SimCluster& cluster) {
  std::vector<Digest> out;
  for (const protocol::JournalRecord& record : cluster.journal().read()) {
    if (const auto* plan = std::get_if<protocol::PlanRecord>(&record)) {
      out.push_back(plan->plan_hash);
    }
  }
  return out;
}

TEST(Callout, LateAnswersInEveryOrderGiveOneStream) {
  const Scenario scenario = with_functions();
  std::optional<Digest> expected;
  for_each_seed({.usual = 20, .quiet = true}, [&](uint64_t seed) {
    const AskedJob run = start(scenario, sound, seed);
    ASSERT_TRUE(run->run(kSteps)) << "hangs";
    EXPECT_EQ(scripted(run).asked, kSteps) << "asked once a step";
    if (!expected) expected = run->stream_hash();
    ASSERT_EQ(run->stream_hash(), *expected);
  });
}

// The strategy is in the digest that plans carry, so hashes differ; places must not.
TEST(Callout, AFunctionThatSaysWhatTheModelSaysPlacesTheSame) {
  const AskedJob own = start(with_functions(), sound, 1);
  ASSERT_TRUE(own->run(kSteps));
  const Scenario plain = balanced();
  auto native = plain.start(2);
  ASSERT_TRUE(native->run(kSteps));
  EXPECT_EQ(own->consumer(0).content_chain(), native->consumer(0).content_chain());
  for (const Rank rank : own->ranks()) {
    EXPECT_EQ(own->consumer(rank).rank_hash(), native->consumer(rank).rank_hash()) << rank;
  }
}

TEST(Callout, AnswersAreDurableBeforeThePlanThatCountsOnThem) {
  Scenario scenario = with_functions();
  scenario.spec.strategy.balance = model::BalanceMethod::kArrival;
  scenario.spec.strategy.balance_by = {"backwards", "1", 1};
  const AskedJob run = start(scenario, sound, 3);
  ASSERT_TRUE(run->run(kSteps));
  std::vector<model::CalloutKind> since;
  uint64_t steps = 0;
  for (const protocol::JournalRecord& record : run->journal().read()) {
    if (const auto* answer = std::get_if<protocol::CalloutRecord>(&record)) {
      EXPECT_EQ(answer->step, steps);
      since.push_back(answer->kind);
    }
    if (const auto* plan = std::get_if<protocol::PlanRecord>(&record)) {
      EXPECT_EQ(plan->step, steps++);
      EXPECT_EQ(since, (std::vector{model::CalloutKind::kCost, model::CalloutKind::kBalance}));
      since.clear();
    }
  }
  EXPECT_EQ(steps, kSteps);
}

TEST(Callout, FoldingTheJournalGivesTheSamePlansWithoutTheFunctions) {
  Scenario scenario = with_functions();
  scenario.spec.strategy.balance = model::BalanceMethod::kArrival;
  scenario.spec.strategy.balance_by = {"backwards", "1", 1};
  const AskedJob live = start(scenario, sound, 3);
  ASSERT_TRUE(live->run(kSteps));
  RecordedCallouts recorded;
  for (const protocol::JournalRecord& record : live->journal().read()) recorded.add(record);
  EXPECT_EQ(recorded.size(), 2 * kSteps);
  const auto job = scenario.open();
  SimCluster again(job, *scenario.objects, scenario.all_ranks(), scenario.options,
                   host::start_state(*job), 8, Layout{}, &recorded);
  ASSERT_TRUE(again.run(kSteps));
  EXPECT_EQ(plans(again), plans(*live.cluster));
  EXPECT_EQ(again.stream_hash(), live->stream_hash());
}

TEST(Callout, ARecordOfAnotherVersionIsNotUsed) {
  RecordedCallouts recorded;
  recorded.add(protocol::CalloutRecord{{}, 0, model::CalloutKind::kCost, {"mine", "2", 1}, {1}});
  const Scenario scenario = with_functions();
  const auto job = scenario.open();
  SimCluster cluster(job, *scenario.objects, scenario.all_ranks(), scenario.options,
                     host::start_state(*job), 8, Layout{}, &recorded);
  ASSERT_TRUE(cluster.run(kSteps));
  ASSERT_TRUE(cluster.failure());
  EXPECT_NE(cluster.failure()->message().find("mine (version 2)"), std::string::npos);
}

TEST(Callout, ResumeAtEveryStepIsAsIfItHadNotStopped) {
  const Scenario scenario = with_functions();
  const AskedJob whole = start(scenario, sound, 1);
  ASSERT_TRUE(whole->run(kSteps));
  for (uint64_t stop = 0; stop < kSteps; ++stop) {
    const AskedJob before = start(scenario, sound, 10 + stop);
    ASSERT_TRUE(before->run(stop));
    const auto state = before->state(0);
    const AskedJob after = start(scenario, sound, 50 + stop, &*state);
    ASSERT_TRUE(after->run(kSteps)) << "hangs when resumed at " << stop;
    EXPECT_EQ(scripted(after).asked, kSteps - stop) << "asks again what comes after";
    ASSERT_EQ(after->consumer(0).plan_chain(), whole->consumer(0).plan_chain()) << stop;
  }
}

// What a function has answered, and a planner wrote down, it is not asked again.
TEST(Callout, APlannerThatComesBackCountsOnRecordedAnswers) {
  const Scenario scenario = with_functions();
  const AskedJob quiet = start(scenario, sound, 1);
  ASSERT_TRUE(quiet->run(kSteps));
  for_each_seed({60}, [&](uint64_t seed) {
    Layout layout = stormy(seed);
    layout.planner.kills = 1 + seed % 4;
    std::map<std::pair<StepIndex, model::CalloutKind>, uint64_t> asked;
    const AskedJob run = start(
        scenario,
        [&asked](const model::CalloutRequest& request) {
          ++asked[{request.step, request.kind}];
          return sound(request);
        },
        seed, nullptr, layout);
    ASSERT_TRUE(run->run(kSteps)) << "hangs";
    ASSERT_FALSE(run->failure()) << run->failure()->message();
    ASSERT_EQ(run->stream_hash(), quiet->stream_hash());
    uint64_t again = 0;
    for (const auto& [what, times] : asked) again += times - 1;
    ASSERT_LE(again, run->sightings().planner_kills) << "one question at a time is on its way";
  });
}

TEST(Callout, ABadAnswerEndsAllRanksBeforeTheSameStep) {
  constexpr StepIndex kBad = 4;
  const std::vector<std::pair<Answer, std::string>> bad = {
      {std::vector<int64_t>{1, 2}, "answered 2 numbers"},
      {Status(Code::kUserFunction, "raised ZeroDivisionError"), "raised ZeroDivisionError"},
      {Status(Code::kInternal, "anything"), "anything"},
  };
  for (const auto& [answer, named] : bad) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const AskedJob run = start(
          with_functions(),
          [&answer = answer](const model::CalloutRequest& request) {
            return request.step == kBad ? std::optional(answer) : sound(request);
          },
          seed);
      ASSERT_TRUE(run->run(kSteps)) << "hangs with seed " << seed;
      ASSERT_TRUE(run->failure());
      EXPECT_EQ(run->failure()->code(), Code::kUserFunction);
      const std::string who = "cost function mine (version 3), step 4: ";
      EXPECT_NE(run->failure()->message().find(who + named), std::string::npos)
          << run->failure()->message();
      for (const Rank rank : run->ranks()) {
        ASSERT_TRUE(run->consumer(rank).failure());
        EXPECT_EQ(run->consumer(rank).state().state.next_step, kBad) << rank;
      }
    }
  }
}

TEST(Callout, AFunctionThatNeverAnswersIsWaitedForAndNamed) {
  const AskedJob run = start(
      with_functions(),
      [](const model::CalloutRequest& request) {
        return request.step == 3 ? std::nullopt : sound(request);
      },
      1);
  EXPECT_FALSE(run->run(kSteps)) << "step 3 was planned without its answer";
  EXPECT_FALSE(run->failure());
  const planner::PlannerProbe& probe = run->host().planner_probe();
  EXPECT_EQ(run->host().planner_state().next_step(), 3u);
  EXPECT_EQ(probe.asked_kind, static_cast<uint8_t>(model::CalloutKind::kCost));
  EXPECT_EQ(probe.asked_step, 3u);
  EXPECT_EQ(probe.callouts, 3u);
  scripted(run).unanswered(costs_of(scripted(run).held));
  EXPECT_TRUE(run->run(4)) << "and goes on when the answer comes";
}

// A function is told how many stages and seats there are: what it answers counts for those.
TEST(Callout, AStepThatIsAskedAboutKeepsItsTree) {
  constexpr StepIndex kHeld = 3;
  const AskedJob run = start(
      with_functions(),
      [](const model::CalloutRequest& request) {
        return request.step == kHeld ? std::nullopt : sound(request);
      },
      1);
  EXPECT_FALSE(run->run(kSteps));
  std::optional<Result<StepIndex>> first;
  run->host().rebuild_tree({*model::Mesh::make({{"tp", 1}, {"pp", 2}, {"dp", 2}}), std::nullopt},
                           [&](const Result<StepIndex>& answer) { first = answer; });
  ASSERT_TRUE(run->world().run_until([&] { return first.has_value(); }, 1'000'000));
  ASSERT_TRUE(first->ok()) << first->status().message();
  scripted(run).unanswered(costs_of(scripted(run).held));
  ASSERT_TRUE(run->run(kSteps - kHeld));
  std::vector<uint32_t> planned;
  for (const protocol::JournalRecord& record : run->journal().read()) {
    if (const auto* tree = std::get_if<protocol::TreeRecord>(&record)) {
      EXPECT_EQ(tree->first_step, kHeld + 1);
    }
    if (const auto* answer = std::get_if<protocol::CalloutRecord>(&record)) {
      EXPECT_EQ(answer->versions.tree, answer->step <= kHeld ? 1u : 2u) << answer->step;
    }
    if (const auto* plan = std::get_if<protocol::PlanRecord>(&record)) {
      planned.push_back(plan->versions.tree);
    }
  }
  ASSERT_EQ(planned.size(), kSteps);
  for (StepIndex step = 0; step < kSteps; ++step) {
    EXPECT_EQ(planned[step], step <= kHeld ? 1u : 2u) << step;
  }
}

// Over processes it is asked where a rank is: whoever dies, an answer counts once and none is
// waited for that cannot come.
TEST(Callout, AreAskedWhereRanksAreWhoeverDies) {
  const Scenario scenario = with_functions();
  const AskedJob quiet = start(scenario, sound, 1);
  ASSERT_TRUE(quiet->run(kSteps));
  uint64_t deaths = 0, planners = 0, again = 0;
  const uint64_t worlds = for_each_seed({100}, [&](uint64_t seed) {
    Layout layout = seed % 2 == 0 ? stormy(seed) : Layout{};
    layout.split = true;
    layout.keeper.kills = seed % 3;
    layout.rank_deaths = {1 + seed % 8, 8 + seed % 40, 400'000};
    const AskedJob run = start(scenario, sound, seed, nullptr, layout);
    ASSERT_TRUE(run->run(kSteps)) << (run->failure() ? run->failure()->message() : "hangs");
    ASSERT_FALSE(run->failure()) << run->failure()->message();
    ASSERT_EQ(run->stream_hash(), quiet->stream_hash());
    deaths += run->world().landed().of(Fault::kRankDies);
    planners += run->sightings().planner_kills;
    again += scripted(run).asked - kSteps;
  });
  if (worlds < seeds::kStorm) return;
  EXPECT_GT(deaths, worlds);
  EXPECT_GT(planners, worlds / 4);
  EXPECT_GT(again, worlds / 4) << "somebody died who was asked";
}

// The rank that is asked is lost for good: what it would have said is asked of another.
TEST(Callout, ARankThatIsLostWhileItIsAskedHoldsUpNobody) {
  Scenario scenario = with_functions();
  scenario.axes = {{"dp", 4}};
  scenario.spec.align = 8;
  scenario.spec.bins = 8;
  constexpr StepIndex kHeld = 5;
  for (const bool answers_late : {false, true}) {
    std::set<uint32_t> consumers;
    bool held = false;
    Layout layout;
    layout.split = true;
    const AskedJob run = start(
        scenario,
        [&](const model::CalloutRequest& request) -> std::optional<Answer> {
          if (request.step == kHeld && !std::exchange(held, true)) return std::nullopt;
          if (request.step == kHeld) consumers.insert(request.seats.consumers);
          return sound(request);
        },
        1, nullptr, layout);
    EXPECT_FALSE(run->run(kSteps)) << "step " << kHeld << " is asked about";
    run->lose(0);
    std::optional<Result<StepIndex>> first;
    run->rebuild({*model::Mesh::make({{"dp", 2}}), std::nullopt, {2, 3}},
                 [&](const Result<StepIndex>& answer) { first = answer; });
    run->lose(1);
    ASSERT_TRUE(run->world().run_until([&] { return first.has_value(); }, 1'000'000)) << "hangs";
    ASSERT_TRUE(first->ok()) << first->status().message();
    if (answers_late) scripted(run).unanswered(std::vector<int64_t>{1});
    ASSERT_TRUE(run->run(kSteps)) << "hangs";
    ASSERT_FALSE(run->failure()) << run->failure()->message();
    EXPECT_EQ(run->consumer(2).state().state.next_step, kSteps);
    EXPECT_EQ(consumers, std::set<uint32_t>{2}) << "asked anew, about the ranks that are there";
  }
}

}  // namespace callout_test
}  // namespace overlord::sim
