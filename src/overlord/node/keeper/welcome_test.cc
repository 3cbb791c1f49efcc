// What a node can plan, what it tells all ranks alike, and whom it says it waits for.
#include "overlord/node/keeper/welcome.h"

#include <gtest/gtest.h>

#include "overlord/host/made_up_job_test.h"
#include "overlord/plan/place/place_tree.h"
#include "overlord/protocol/plan_codec.h"

namespace overlord::node {
namespace {

host::OpenJob job_of_two_ranks() {
  host::MadeUpJob made_up;
  made_up.axes = {{"dp", 2}};
  for (const std::string name : {"a", "b"}) {
    model::Source source = host::made_up_source(name);
    source.bad_rows_allowed = name == "a" ? 3 : 4;
    made_up.add(host::made_up_rows(source, 8));
  }
  return **made_up.open();
}

TEST(Welcome, TellsWhatBelongsToTheJob) {
  host::OpenJob job = job_of_two_ranks();
  const auto views = plan::make_views(job.mesh, job.delivery, 1);
  model::RuntimeOptions runtime;
  runtime.prefetch_steps = 5;
  runtime.runway = 7;
  runtime.constructor_budget_bytes = 11;
  runtime.private_copy_limit_bytes = 13;
  protocol::Welcome welcome = make_welcome(job, runtime, *views);
  EXPECT_EQ(welcome.source_names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(welcome.source_digests[1], job.manifest.sources[1].digest);
  EXPECT_EQ(welcome.bad_rows_allowed, (std::vector<uint32_t>{3, 4}));
  EXPECT_EQ(welcome.view_table, protocol::encode_views(*views));
  EXPECT_EQ(welcome.prefetch_steps, 5u);
  EXPECT_EQ(welcome.hold_limit_bytes, 11u);
  EXPECT_EQ(welcome.copy_limit_bytes, 13u);
  EXPECT_FALSE(welcome.metric_driven);
  job.spec.mixture.controller.kind = model::ControllerKind::kAdo;
  job.spec.mixture.controller.delay = 20;
  welcome = make_welcome(job, runtime, *views);
  EXPECT_TRUE(welcome.metric_driven);
  EXPECT_EQ(welcome.feedback_kept, 20u + 7 + 5 + 8) << "as far as a rank may lie behind, and more";
}

TEST(CheckNodeCanPlan, NoPythonAndAllReports) {
  host::OpenJob job = job_of_two_ranks();
  EXPECT_TRUE(check_node_can_plan(job, {0}).ok());
  job.spec.mixture.controller.kind = model::ControllerKind::kOdm;
  EXPECT_TRUE(check_node_can_plan(job, {0, 1}).ok());
  host::expect_refused(check_node_can_plan(job, {0}), "this node serves 1 of 2 ranks");
  job.mesh = *model::Mesh::make({{"tp", 2}});
  job.delivery.broadcast_axes = {"tp"};
  EXPECT_TRUE(check_node_can_plan(job, {0}).ok()) << "rank 1 is served by rank 0";
  job = job_of_two_ranks();
  job.spec.strategy.balance_by.name = "own";
  EXPECT_TRUE(check_node_can_plan(job, {0, 1}).ok());
  host::expect_refused(check_node_can_plan(job, {0}),
                       "need one planner that asks them for all ranks: this node serves 1 of 2");
}

TEST(WhatIsWaitedFor, NamesRanksSourcesReportsAndRules) {
  const model::JobSpec spec = job_of_two_ranks().spec;
  planner::PlannerProbe planner;
  EXPECT_EQ(what_is_waited_for({}, spec, &planner), "");
  EXPECT_EQ(what_is_waited_for({}, spec, nullptr), "");
  EXPECT_EQ(what_is_waited_for({1, 3}, spec, nullptr), "rank 1 is gone; rank 3 is gone");
  planner.waiting_since_ns = 5;
  planner.waiting_source = 1;
  EXPECT_EQ(what_is_waited_for({1}, spec, &planner),
            "rank 1 is gone; the planner waits for metadata of source b");
  planner.waiting_since_ns = 0;
  planner.waits_for_feedback = 8;
  EXPECT_EQ(what_is_waited_for({}, spec, &planner),
            "the planner waits for the reports of step 7: every reporter must call report() for "
            "it");
  planner.waits_for_rule = 8;
  EXPECT_EQ(what_is_waited_for({}, spec, &planner),
            "the mixing rule was asked after step 7 and has not answered")
      << "the reports are in";
}

TEST(WhatIsWaitedFor, NamesWhoseFunctionIsAsked) {
  FunctionWait wait{"cost function mine (version 3)", 4, 1'200'000'000, {}};
  EXPECT_EQ(function_wait_text(wait),
            "the planner waits for the cost function mine (version 3), asked about step 4 1200 ms "
            "ago");
  wait.rank = 2;
  EXPECT_EQ(function_wait_text(wait),
            "the planner waits for the cost function mine (version 3), asked about step 4 where "
            "rank 2 is 1200 ms ago");
}

}  // namespace
}  // namespace overlord::node
