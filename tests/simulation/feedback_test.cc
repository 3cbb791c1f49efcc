// Metric-driven mixtures: reports are an input of the stream. They count from the promised step on
// and not before; a resumed run draws the same samples; the journal folds to the live state.
#include <gtest/gtest.h>

#include <algorithm>

#include "overlord/protocol/journal/journal_record.h"
#include "overlord/sim/scenario.h"
#include "simulation/checkers/all.h"
#include "simulation/menu.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace feedback_test {

constexpr uint64_t kSteps = 14;
constexpr uint32_t kDelay = 3;
const std::vector<Rank> kReporters = {0, 1};

Scenario metric_driven(model::ControllerKind kind = model::ControllerKind::kOdm) {
  Scenario scenario = Scenario::small();
  scenario.spec.mixture.controller.kind = kind;
  scenario.spec.mixture.controller.delay = kDelay;
  scenario.spec.mixture.controller.fit_every = 2;
  scenario.spec.mixture.controller.fit_after = 1;
  scenario.spec.max_steps = kSteps;
  scenario.options.reporters = kReporters;
  return scenario;
}

// Losses that differ by source, rank and step.
std::optional<model::StepFeedback> losses(Rank rank, StepIndex step) {
  if (rank >= kReporters.size()) return std::nullopt;
  model::StepFeedback part;
  part.step = step;
  for (SourceIndex s = 0; s < 3; ++s) {
    const uint64_t tokens = 100 + 10 * rank + s;
    const auto mean = static_cast<int64_t>((s == 2 ? 9 : 2) * 4096 / (step + 2) + 2'000 * s);
    part.losses.push_back({s, static_cast<int64_t>(tokens) * mean, tokens});
  }
  return part;
}

std::vector<Digest> contents(const SimCluster& cluster) {
  std::vector<Digest> out;
  for (const protocol::JournalRecord& record : cluster.journal().read()) {
    if (const auto* plan = std::get_if<protocol::PlanRecord>(&record)) {
      out.push_back(plan->content_hash);
    }
  }
  return out;
}

// Through bytes, as a checkpoint would.
protocol::ResumeState saved(const protocol::ResumeState& state) {
  auto decoded = protocol::decode_resume_state(protocol::encode_resume_state(state));
  EXPECT_TRUE(decoded.ok()) << decoded.status().message();
  return *decoded;
}

// A user's rule: the source with the highest mean loss gets more than it had.
Result<std::vector<int64_t>> raise_the_worst(const model::StepFeedback& asked) {
  std::vector<int64_t> weights = asked.weights;
  const auto worst =
      std::max_element(asked.losses.begin(), asked.losses.end(), [](const auto& a, const auto& b) {
        return a.loss / static_cast<int64_t>(a.tokens) < b.loss / static_cast<int64_t>(b.tokens);
      });
  weights[worst->source] = std::min(weights[worst->source] / 4 * 5, model::kWeightOne);
  weights[asked.step % weights.size()] /= 2;
  return weights;
}

void report_losses(SimCluster* cluster) {
  cluster->reports = losses;
  cluster->rule = raise_the_worst;
}

class Feedback : public ::testing::TestWithParam<model::ControllerKind> {};

TEST_P(Feedback, ResumeAtEveryStepIsAsIfItHadNotStopped) {
  const Scenario scenario = metric_driven(GetParam());
  auto whole = scenario.start(1);
  report_losses(whole.get());
  ASSERT_TRUE(whole->run(kSteps));
  for (uint64_t stop = 0; stop < kSteps; ++stop) {
    auto before = scenario.start(10 + stop);
    report_losses(before.get());
    ASSERT_TRUE(before->run(stop));
    const auto state = before->state(0);
    ASSERT_TRUE(state.has_value()) << "feedback never completes at " << stop;
    const auto other = before->state(1);
    ASSERT_EQ(protocol::encode_resume_state(*state), protocol::encode_resume_state(*other));
    auto after = scenario.resume(saved(*state), 50 + stop);
    report_losses(after.get());
    ASSERT_TRUE(after->run(kSteps)) << "hangs when resumed at " << stop;
    ASSERT_EQ(after->consumer(0).content_chain(), whole->consumer(0).content_chain()) << stop;
    ASSERT_EQ(after->consumer(0).plan_chain(), whole->consumer(0).plan_chain()) << stop;
  }
}

TEST_P(Feedback, ManySeedsOfTheWorldGiveOneStream) {
  const Scenario scenario = metric_driven(GetParam());
  std::optional<Digest> expected;
  for_each_seed({.usual = 40, .quiet = true}, [&](uint64_t seed) {
    auto cluster = scenario.start(seed);
    report_losses(cluster.get());
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
    if (!expected) expected = cluster->stream_hash();
    ASSERT_EQ(cluster->stream_hash(), *expected);
  });
}

// Reports that a planner had in memory alone come again; none counts twice, and no step is drawn
// before all of its have come.
TEST_P(Feedback, WhoeverDiesAndWhenever) {
  const Scenario scenario = metric_driven(GetParam());
  auto quiet = scenario.start(1);
  report_losses(quiet.get());
  ASSERT_TRUE(quiet->run(kSteps));
  const auto job = scenario.open();
  uint64_t planners = 0;
  const uint64_t worlds = for_each_seed({60}, [&](uint64_t seed) {
    Layout layout = stormy(seed);
    layout.planner.kills = 1 + seed % 5;
    auto cluster = start(scenario, job, seed, layout);
    report_losses(cluster.get());
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
    ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
    ASSERT_EQ(cluster->stream_hash(), quiet->stream_hash());
    for (const auto& [rank, answer] : cluster->answers()) {
      ASSERT_EQ(answer.verdict, protocol::Verdict::kAccepted)
          << "rank " << rank << " step " << answer.step;
    }
    planners += cluster->sightings().planner_kills;
  });
  if (worlds < 25) return;  // one of them, run again
  EXPECT_GT(planners, worlds);
}

// Ranks and their links to the planner live: what a rank has reported is kept by its client.
TEST_P(Feedback, WhateverElseGoesWrong) {
  const Scenario scenario = metric_driven(GetParam());
  auto quiet = scenario.start(1);
  report_losses(quiet.get());
  ASSERT_TRUE(quiet->run(kSteps));
  const auto job = scenario.open();
  for_each_seed({40}, [&](uint64_t seed) {
    Layout layout = of_many_kinds(seed * 3);
    layout.cuts = layout.rank_deaths = {};
    auto cluster = start(scenario, job, seed, layout);
    report_losses(cluster.get());
    const bool finished = cluster->run(kSteps);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, quiet->stream_hash()),
              checkers::kKept);
  });
}

INSTANTIATE_TEST_SUITE_P(Controllers, Feedback,
                         ::testing::Values(model::ControllerKind::kOdm, model::ControllerKind::kAdo,
                                           model::ControllerKind::kRule));

TEST(FeedbackRule, IsAskedOnceAStepInOrderWithTheNewestWeights) {
  const Scenario scenario = metric_driven(model::ControllerKind::kRule);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    auto cluster = scenario.start(seed);
    std::vector<int64_t> newest;
    StepIndex next = 0;
    cluster->reports = losses;
    cluster->rule = [&](const model::StepFeedback& asked) {
      EXPECT_EQ(asked.step, next++);
      EXPECT_EQ(asked.losses.size(), 3u);
      EXPECT_EQ(asked.losses[1].tokens, 212u) << "the sum over both reporters";
      if (asked.step > 0) {
        EXPECT_EQ(asked.weights, newest);
      }
      newest = *raise_the_worst(asked);
      return Result<std::vector<int64_t>>(newest);
    };
    ASSERT_TRUE(cluster->run(kSteps));
    EXPECT_GE(next, kSteps - kDelay);
  }
}

TEST(FeedbackRule, OneThatFailsEndsAllRanksBeforeTheFirstStepThatNeedsIt) {
  const Scenario scenario = metric_driven(model::ControllerKind::kRule);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    auto cluster = scenario.start(seed);
    cluster->reports = losses;
    cluster->rule = [&](const model::StepFeedback& asked) -> Result<std::vector<int64_t>> {
      if (asked.step < 4) return raise_the_worst(asked);
      return Status(Code::kUserFunction, "the rule is tired");
    };
    cluster->run(kSteps);
    ASSERT_TRUE(cluster->failure().has_value());
    EXPECT_EQ(cluster->failure()->message(), "the rule is tired");
    for (const Rank rank : kReporters) {
      EXPECT_EQ(cluster->consumer(rank).state().state.next_step, 4u + kDelay);
    }
    cluster->world().run_until([] { return false; }, 1'000'000);  // what is still on its way
    // The last reporter of a step is not left without an answer.
    size_t answered = 0;
    for (const auto& [rank, answer] : cluster->answers()) answered += answer.step <= 5;
    EXPECT_EQ(answered, 6u * kReporters.size());
  }
}

TEST(FeedbackDelay, AReportCountsFromThePromisedStepOnAndNotBefore) {
  const Scenario scenario = metric_driven();
  auto before = scenario.start(1);
  before->reports = losses;
  ASSERT_TRUE(before->run(kSteps));
  for (const StepIndex changed : {StepIndex{0}, StepIndex{4}, StepIndex{8}}) {
    auto after = scenario.start(2);
    after->reports = [changed](Rank rank, StepIndex step) {
      auto part = losses(rank, step);
      if (step == changed && rank == 1) part->losses[0].loss *= 400;
      return part;
    };
    ASSERT_TRUE(after->run(kSteps));
    const std::vector<Digest> a = contents(*before), b = contents(*after);
    ASSERT_EQ(a.size(), b.size());
    for (StepIndex step = 0; step < changed + kDelay; ++step) EXPECT_EQ(a[step], b[step]) << step;
    bool differs = false;
    for (StepIndex step = changed + kDelay; step < a.size(); ++step) differs |= a[step] != b[step];
    EXPECT_TRUE(differs) << "a report of step " << changed << " changed nothing";
  }
}

TEST(FeedbackDelay, ThePlannerWaitsForEveryReporter) {
  const Scenario scenario = metric_driven();
  auto cluster = scenario.start(1);
  cluster->reports = [](Rank rank, StepIndex step) {
    return rank == 1 && step == 2 ? std::nullopt : losses(rank, step);
  };
  EXPECT_FALSE(cluster->run(kSteps)) << "step 5 was planned without the reports of step 2";
  EXPECT_EQ(cluster->host().planner_state().next_step(), 2 + kDelay);
  EXPECT_EQ(cluster->host().planner_probe().waits_for_feedback, 2 + 1u);
  EXPECT_FALSE(cluster->state(0).has_value()) << "a state without its feedback";
  cluster->report(1, *losses(1, 2));
  EXPECT_TRUE(cluster->run(4)) << "and goes on when it comes";
}

TEST(FeedbackAnswers, DuplicateLateEarlyAndUnwantedReports) {
  using protocol::Verdict;
  const Scenario scenario = metric_driven();
  auto first = scenario.start(1);
  first->reports = losses;
  ASSERT_TRUE(first->run(6));
  auto cluster = scenario.resume(*first->state(0), 3);
  cluster->reports = losses;
  ASSERT_TRUE(cluster->run(2));
  ASSERT_TRUE(cluster->state(0).has_value());
  const auto verdict = [&](Rank rank, StepIndex step) {
    const size_t before = cluster->answers().size();
    cluster->report(rank, {step, {}, {}});
    EXPECT_TRUE(
        cluster->world().run_until([&] { return cluster->answers().size() > before; }, 1'000'000));
    EXPECT_EQ(cluster->answers().back().first, rank);
    EXPECT_EQ(cluster->answers().back().second.step, step);
    return cluster->answers().back().second.verdict;
  };
  // Other answers may still be on their way: wait for the quiet.
  cluster->world().run_until([] { return false; }, 1'000'000);
  EXPECT_EQ(verdict(0, 6), Verdict::kDuplicate);
  EXPECT_EQ(verdict(1, 7), Verdict::kDuplicate);
  EXPECT_EQ(verdict(0, 5), Verdict::kLate);
  EXPECT_EQ(verdict(0, 99), Verdict::kEarly);
  const Scenario without = Scenario::small();
  auto plain = without.start(1);
  ASSERT_TRUE(plain->run(2));
  plain->report(0, {0, {}, {}});
  ASSERT_TRUE(plain->world().run_until([&] { return !plain->answers().empty(); }, 1'000'000));
  EXPECT_EQ(plain->answers()[0].second.verdict, Verdict::kUnwanted);
}

TEST(FeedbackJournal, FoldingItGivesTheLiveStateBack) {
  Scenario scenario = metric_driven();
  // Longer than what is planned ahead: feedback waits until it counts.
  constexpr uint32_t kLongDelay = 9;
  scenario.spec.mixture.controller.delay = kLongDelay;
  auto first = scenario.start(1);
  first->reports = losses;
  ASSERT_TRUE(first->run(5));
  auto cluster = scenario.resume(*first->state(0), 7);
  cluster->reports = losses;
  ASSERT_TRUE(cluster->run(4));
  ASSERT_TRUE(cluster->state(0).has_value());
  const planner::PlannerState& live = cluster->host().planner_state();
  // Feedback that does not count yet, and nothing on its way to the journal.
  const auto pending = [&] {
    return live.uncommitted() == live.unplanned() && !live.pending_feedback().empty();
  };
  ASSERT_TRUE(cluster->world().run_until(pending, 1'000'000));
  std::string state;
  std::map<StepIndex, model::StepFeedback> feedback;
  for (const protocol::JournalRecord& record : cluster->journal().read()) {
    if (const auto* start = std::get_if<protocol::JournalStart>(&record)) state = start->state;
    if (const auto* plan = std::get_if<protocol::PlanRecord>(&record)) {
      state = plan->state_after;
    }
    if (const auto* reported = std::get_if<protocol::FeedbackRecord>(&record)) {
      EXPECT_EQ(reported->effective, reported->feedback.step + kLongDelay);
      feedback[reported->feedback.step] = reported->feedback;
    }
  }
  std::erase_if(feedback,
                [&](const auto& item) { return item.first + kLongDelay < live.unheard(); });
  EXPECT_EQ(state, protocol::encode_stream_state(live.stream()));
  EXPECT_EQ(feedback, live.pending_feedback());
}

TEST(FeedbackState, AStateWithoutItsFeedbackIsRefused) {
  const Scenario scenario = metric_driven();
  auto cluster = scenario.start(1);
  cluster->reports = losses;
  ASSERT_TRUE(cluster->run(5));
  protocol::ResumeState state = *cluster->state(0);
  state.feedback.pop_back();
  const auto refused = host::resume_from(*scenario.open(), state, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kStateMismatch);
}

TEST(FeedbackState, AnotherMixtureByDeclarationBeginsAfresh) {
  const Scenario scenario = metric_driven();
  auto cluster = scenario.start(1);
  cluster->reports = losses;
  ASSERT_TRUE(cluster->run(5));
  Scenario other = metric_driven(model::ControllerKind::kAdo);
  other.spec.mixture.controller.delay = kDelay + 2;
  const auto job = other.open();
  EXPECT_FALSE(host::resume_from(*job, *cluster->state(0), {}).ok());
  const auto adapted = host::resume_from(*job, *cluster->state(0), {true, false});
  ASSERT_TRUE(adapted.ok()) << adapted.status().message();
  EXPECT_EQ(adapted->state.controller.since, 5u);
  SimCluster after(job, *other.objects, other.all_ranks(), other.options, *adapted, 9);
  after.reports = losses;
  EXPECT_TRUE(after.run(6));
}

}  // namespace feedback_test
}  // namespace overlord::sim
