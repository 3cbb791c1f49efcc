// Plans without an engine: where they end, what they wait for and what they refuse.
#include "overlord/node/engine/plan_cursor.h"

#include <gtest/gtest.h>

#include "overlord/host/made_up_job_test.h"
#include "overlord/runtime/in_memory/memory_storage.h"

namespace overlord::node {
namespace {

class NoExecutor final : public runtime::Executor {
 public:
  void post(runtime::Task) override {}
  void post_after(int64_t, runtime::Task) override {}
};

// Lengths are in the index of both sources, so that nothing is ever read.
class Planning : public ::testing::Test {
 protected:
  Planning() : made_up_(20, 2) {
    for (const std::string name : {"a", "b"}) {
      model::Source source = host::made_up_source(name);
      source.at_end = model::EndPolicy::kDrop;
      made_up_.add(host::made_up_rows(source, name == "a" ? 4 : 12));
    }
  }
  void open() {
    const auto job = made_up_.open();
    ASSERT_TRUE(job.ok()) << job.status().message();
    job_ = *job;
    state_ = host::start_state(*job_);
  }
  PlanCursor cursor(CallFunction call = {}) {
    return {job_, state_, storage_, encoders_, std::move(call)};
  }
  static std::vector<Digest> run(PlanCursor& cursor, uint64_t most = 1000) {
    std::vector<Digest> hashes;
    while (hashes.size() < most) {
      const auto plan = cursor.next();
      EXPECT_TRUE(plan.ok()) << plan.status().message();
      if (!plan.ok() || !*plan) break;
      hashes.push_back((*plan)->plan_hash);
    }
    return hashes;
  }

  host::MadeUpJob made_up_;
  std::shared_ptr<const host::OpenJob> job_;
  protocol::ResumeState state_;
  runtime::MemoryStorage storage_;
  NoExecutor executor_;
  Encoders encoders_{executor_, {}, 1};
};

TEST_F(Planning, GoesOnFromItsStateToTheSameEnd) {
  open();
  PlanCursor whole = cursor();
  const std::vector<Digest> hashes = run(whole);
  ASSERT_EQ(hashes.size(), 4u) << "16 documents of half a bin, two bins a step";
  EXPECT_TRUE(whole.state().state.ended);
  EXPECT_FALSE((*whole.next())) << "again and again";
  PlanCursor first = cursor();
  EXPECT_EQ(run(first, 1), std::vector<Digest>{hashes[0]});
  EXPECT_EQ(first.state().state.next_step, 1u);
  state_ = first.state();
  state_.microbatch = 5;
  PlanCursor second = cursor();
  EXPECT_EQ(second.state().microbatch, 0u) << "it plans whole steps";
  EXPECT_EQ(run(second), (std::vector<Digest>{hashes[1], hashes[2], hashes[3]}));
  EXPECT_EQ(second.state().plan_chain, whole.state().plan_chain);
  EXPECT_EQ(second.state().content_chain, whole.state().content_chain);
}

TEST_F(Planning, ADrySourceHasNoWeight) {
  open();
  PlanCursor plans = cursor();
  run(plans, 1);
  EXPECT_EQ(plans.weights(), (std::vector<int64_t>{model::kWeightOne, model::kWeightOne}));
  run(plans);
  EXPECT_EQ(plans.weights(), (std::vector<int64_t>{0, model::kWeightOne})) << "b was there yet";
}

TEST_F(Planning, AMetricDrivenMixtureWaitsForItsReports) {
  made_up_.spec.mixture.controller.kind = model::ControllerKind::kOdm;
  made_up_.spec.mixture.controller.delay = 2;
  open();
  PlanCursor plans = cursor();
  host::expect_refused(plans.report({0, {}, {}}), "step 0 has not been planned");
  run(plans, 2);
  EXPECT_EQ(plans.next().status().code(), Code::kUnavailable) << "of step 0 nothing is known";
  host::expect_refused(plans.report({0, {{2, 1, 1}}, {}}), "no such source");
  EXPECT_EQ(plans.next().status().code(), Code::kUnavailable) << "what is refused does not count";
  ASSERT_TRUE(plans.report({0, {{0, 1, 1}, {1, 1, 1}}, {}}).ok());
  ASSERT_TRUE(plans.report({1, {{0, 1, 1}, {1, 1, 1}}, {}}).ok());
  EXPECT_EQ(run(plans, 1).size(), 1u);
  const protocol::ResumeState state = plans.state();
  ASSERT_EQ(state.feedback.size(), 1u) << "as far as it was reported, and needed";
  EXPECT_EQ(state.feedback[0].step, 1u);
}

TEST_F(Planning, AsksTheFunctionsOfTheStrategyAndChecksTheirAnswers) {
  made_up_.spec.strategy.has_cost = true;
  made_up_.spec.strategy.cost_by = {"cost", "1"};
  made_up_.spec.strategy.balance = model::BalanceMethod::kLpt;
  open();
  PlanCursor lacking = cursor();
  host::expect_refused(lacking.next().status(), "the Python function cost is not there");
  PlanCursor failing = cursor([](const auto&) -> Result<std::vector<int64_t>> {
    return Status(Code::kUserFunction, "it threw");
  });
  host::expect_refused(failing.next().status(), "cost function cost (version 1), step 0: it threw",
                       Code::kUserFunction);
  PlanCursor short_of = cursor([](const auto&) { return std::vector<int64_t>{1}; });
  host::expect_refused(short_of.next().status(), "cost function cost", Code::kUserFunction);
  uint64_t asked = 0;
  PlanCursor good = cursor([&asked](const model::CalloutRequest& request) {
    ++asked;
    return std::vector<int64_t>(request.samples.size(), 1);
  });
  EXPECT_EQ(run(good, 2).size(), 2u);
  EXPECT_EQ(asked, 2u) << "once a step";
}

}  // namespace
}  // namespace overlord::node
