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
  auto first = process.read_for_roles(*planner.for_roles(plan), context);
  ASSERT_TRUE(first.ok()) << first.status().message();
  auto again = process.read_for_roles(*planner.for_roles(plan), context);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *first);
  again = Status(Code::kCancelled, "dropped");
  const auto told = protocol::decode_plan(*process.for_clients(*first), context);
  ASSERT_TRUE(told.ok()) << told.status().message();
  ASSERT_NE((*told)->state_after, nullptr);
  EXPECT_EQ((*told)->state_after->next_step, plan->state_after->next_step);
}

}  // namespace
}  // namespace overlord::transport
