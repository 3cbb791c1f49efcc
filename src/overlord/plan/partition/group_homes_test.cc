#include "overlord/plan/partition/group_homes.h"

#include <gtest/gtest.h>

namespace overlord::plan {
namespace {

std::vector<HomelessGroup> equal_groups(uint32_t count) {
  std::vector<HomelessGroup> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back({"g" + std::to_string(i), 1, {}});
  return out;
}

size_t on(const GroupHomes& homes, const std::string& host) {
  size_t count = 0;
  for (const auto& [group, home] : homes) count += home == host;
  return count;
}

size_t moved(const GroupHomes& before, const GroupHomes& after) {
  size_t count = 0;
  for (const auto& [group, home] : after) count += before.at(group) != home;
  return count;
}

TEST(GroupHomes, OneHostHasAll) {
  EXPECT_EQ(on(home_groups(equal_groups(5), {{"", 2}}, {}), ""), 5u);
}

TEST(GroupHomes, WorkIsDealtByCores) {
  const GroupHomes homes = home_groups(equal_groups(12), {{"", 2}, {"b", 4}, {"c", 6}}, {});
  EXPECT_EQ(on(homes, ""), 2u);
  EXPECT_EQ(on(homes, "b"), 4u);
  EXPECT_EQ(on(homes, "c"), 6u);
}

TEST(GroupHomes, AHostThatJoinsTakesItsShareAndNoOtherGroupMoves) {
  const std::vector<HomelessGroup> groups = equal_groups(12);
  const GroupHomes before = home_groups(groups, {{"", 4}, {"b", 4}}, {});
  const GroupHomes after = home_groups(groups, {{"", 4}, {"b", 4}, {"c", 4}}, before);
  EXPECT_EQ(on(after, "c"), 4u);
  EXPECT_EQ(moved(before, after), 4u);
}

TEST(GroupHomes, AHostThatLeavesHandsOverItsOwnAlone) {
  const std::vector<HomelessGroup> groups = equal_groups(12);
  const GroupHomes before = home_groups(groups, {{"", 4}, {"b", 4}, {"c", 4}}, {});
  const GroupHomes after = home_groups(groups, {{"", 4}, {"c", 4}}, before);
  EXPECT_EQ(moved(before, after), 4u);
  EXPECT_EQ(on(after, ""), 6u);
}

TEST(GroupHomes, NothingMovesWithoutNeed) {
  const std::vector<HomelessGroup> groups = equal_groups(7);
  const std::vector<HostRoom> hosts = {{"", 4}, {"b", 2}};
  const GroupHomes before = home_groups(groups, hosts, {});
  EXPECT_EQ(home_groups(groups, hosts, before), before);
}

TEST(GroupHomes, ThoseThatStandByForEachOtherLiveApart) {
  // Two that are alone on the first host would both fit there best.
  const std::vector<HomelessGroup> groups = {{"a", 1, {"b"}}, {"b", 1, {"a"}}};
  const GroupHomes homes = home_groups(groups, {{"", 100}, {"x", 1}}, {});
  EXPECT_NE(homes.at("a"), homes.at("b"));
  EXPECT_EQ(on(home_groups(groups, {{"", 1}}, {}), ""), 2u);  // where there is no other
}

TEST(GroupHomes, TheBusiestIsAsCalmAsCanBe) {
  const std::vector<HomelessGroup> groups = {
      {"large", 6, {}}, {"a", 2, {}}, {"b", 2, {}}, {"c", 2, {}}};
  const GroupHomes homes = home_groups(groups, {{"", 1}, {"x", 1}}, {});
  for (const char* name : {"a", "b", "c"}) EXPECT_NE(homes.at(name), homes.at("large"));
}

}  // namespace
}  // namespace overlord::plan
