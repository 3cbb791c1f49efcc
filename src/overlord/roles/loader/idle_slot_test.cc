#include "overlord/roles/loader/idle_slot.h"

#include <gtest/gtest.h>

namespace overlord::loader {
namespace {

TEST(IdleSlot, GivesBackOnceWhenPlansThatMayNameItAreThrough) {
  IdleSlot slot;
  EXPECT_FALSE(slot.gives_back(true, false, 10, 4)) << "it reads";
  EXPECT_FALSE(slot.gives_back(false, false, 10, 4)) << "plans may name what it has";
  EXPECT_FALSE(slot.gives_back(false, false, 14, 4));
  EXPECT_TRUE(slot.gives_back(false, false, 15, 4));
  EXPECT_FALSE(slot.gives_back(false, false, 16, 4)) << "once";
  EXPECT_FALSE(slot.gives_back(false, true, 17, 4)) << "it is asked for something after all";
  EXPECT_FALSE(slot.gives_back(false, false, 18, 4));
  EXPECT_TRUE(slot.gives_back(false, false, 23, 4));
}

}  // namespace
}  // namespace overlord::loader
