#include "overlord/transport/written_plans.h"

#include <gtest/gtest.h>

#include "overlord/protocol/made_up_messages_test.h"

namespace overlord::transport {
namespace {

// A constructor keeps the plan it was told first, and its ranks need the state that came with it.
TEST(WrittenPlans, APlanThatIsToldAgainLeavesWhatClientsAreTold) {
  const protocol::MadeUpWorld made(1, false);
  const protocol::PlanContext& context = made.context.plans;
  const model::PlanPtr plan = protocol::random_plan(1, made.shape, made.views);
  WrittenPlans planner, process;
  const auto pass_on = [&](const model::PlanPtr& one) {
    const auto kept = process.keep_passed_on(std::string_view(*planner.to_pass_on(one)).substr(1));
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    EXPECT_EQ(kept->first, one->step);
    EXPECT_EQ(kept->second, one->versions.tree);
  };
  pass_on(plan);
  const auto first =
      std::make_shared<const model::Plan>(protocol::plan_for_bucket(*plan, made.shape.buckets - 1));
  process.hold(first);
  pass_on(plan);
  auto later = std::make_shared<model::Plan>(*plan);
  later->step = plan->step + 1000;  // the first is held, and not one of the newest any more
  pass_on(later);
  const auto told = protocol::decode_plan(*process.for_clients(first), context);
  ASSERT_TRUE(told.ok()) << told.status().message();
  ASSERT_NE((*told)->state_after, nullptr);
  EXPECT_EQ((*told)->state_after->next_step, plan->state_after->next_step);
}

}  // namespace
}  // namespace overlord::transport
