#include "overlord/model/owner_map.h"

#include <gtest/gtest.h>

namespace overlord::model {
namespace {

TEST(OwnerMap, WithoutAChangeWindowsAreDealtOverTheSlotsOfTheStart) {
  const Owners owners = owners_of({}, 3, 4);
  EXPECT_EQ(owners.most_slots(), 4u);
  for (uint64_t window = 0; window < 40; ++window) {
    EXPECT_EQ(owners.owner_of(window, 10), window % 10 % 4);
  }
}

TEST(OwnerMap, AChangeCountsFromItsWindowOn) {
  const std::vector<SourceOwners> changes = {{1, {{0, 4}, {17, 16}, {40, 2}}}};
  const Owners owners = owners_of(changes, 1, 4);
  EXPECT_EQ(owners.slots_at(16), 4u);
  EXPECT_EQ(owners.slots_at(17), 16u);
  EXPECT_EQ(owners.slots_at(1000), 2u);
  EXPECT_EQ(owners.most_slots(), 16u);
  EXPECT_EQ(owners_of(changes, 0, 3).most_slots(), 3u);
  EXPECT_EQ(owners_of(changes, 2, 5).most_slots(), 5u);
}

TEST(OwnerMap, WhatWasForgottenNamesNoSlotThatIsNotThere) {
  const std::vector<SourceOwners> changes = {{0, {{17, 2}}}};
  EXPECT_EQ(owners_of(changes, 0, 8).slots_at(3), 2u);
}

}  // namespace
}  // namespace overlord::model
