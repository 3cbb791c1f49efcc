#include "overlord/roles/keeper/shadows.h"

#include <gtest/gtest.h>

#include <set>

#include "overlord/roles/keeper/rosters.h"

namespace overlord::keeper {
namespace {

using protocol::Address;
using protocol::ProcessRoles;

const Address kSlotA = protocol::loader_address(0, 0), kSlotB = protocol::loader_address(1, 0);
const Address kBeside = protocol::constructor_address(0);

// Each stands by for the other; the third has neither.
std::vector<ProcessRoles> crossed() {
  std::vector<ProcessRoles> groups = {
      {"a", 4, {kSlotA, kBeside}}, {"b", 7, {kSlotB}}, {"c", 1, {protocol::loader_address(2, 0)}}};
  groups[0].standby = {kSlotB};
  groups[1].standby = {kSlotA};
  return groups;
}

Lives all_but(std::set<std::string> dead) {
  return [dead = std::move(dead)](const ProcessRoles& group) { return !dead.contains(group.name); };
}

TEST(Shadows, ASlotGoesOnWhereItStandsByInItsNextGeneration) {
  std::vector<ProcessRoles> groups = crossed();
  const auto moves = promotions(groups, "a", all_but({"a"}));
  ASSERT_EQ(moves, (std::vector<Promotion>{{kSlotA, "a", "b", 5}})) << "constructors have none";
  promote(moves[0], &groups);
  EXPECT_EQ(groups[0].roles, std::vector<Address>{kBeside});
  EXPECT_EQ(groups[0].standby, (std::vector<Address>{kSlotB, kSlotA}));
  EXPECT_EQ(groups[1].roles, (std::vector<Address>{kSlotA, kSlotB}));
  EXPECT_TRUE(groups[1].standby.empty());
  EXPECT_EQ(generation_of(groups[1], kSlotA), 5u)
      << "less than its new process's, more than its own";
  EXPECT_EQ(generation_of(groups[1], kSlotB), 7u);
}

TEST(Shadows, WithoutALivingShadowItWaitsForItsProcess) {
  EXPECT_TRUE(promotions(crossed(), "a", all_but({"a", "b"})).empty());
  EXPECT_TRUE(promotions(crossed(), "c", all_but({"c"})).empty());
}

TEST(Shadows, NoGenerationOfASlotComesTwice) {
  std::vector<ProcessRoles> groups = crossed();
  std::set<uint32_t> seen = {4};
  const auto fresh = [&](const ProcessRoles& home) {
    return seen.insert(generation_of(home, kSlotA)).second &&
           generation_of(home, kSlotA) == *seen.rbegin();
  };
  for (int round = 0; round < 5; ++round) {
    promote(promotions(groups, "a", all_but({"a"})).at(0), &groups);
    start_again(&groups[0]);
    EXPECT_TRUE(fresh(groups[1]));
    start_again(&groups[1]);  // and again before the other is back
    EXPECT_TRUE(fresh(groups[1]));
    for (const Promotion& move : promotions(groups, "b", all_but({"b"}))) promote(move, &groups);
    start_again(&groups[1]);
    EXPECT_TRUE(fresh(groups[0]));
  }
  EXPECT_GT(next_generation(groups), *seen.rbegin());
}

TEST(Shadows, AKeeperThatStartsAnewTellsAGenerationThatNobodyHadGiven) {
  std::vector<ProcessRoles> groups = crossed();
  for (ProcessRoles& group : groups) group.generation = 65'537;
  adopt(groups, 4, &groups[0]);
  adopt(groups, 1, &groups[2]);
  EXPECT_EQ(groups[0].generation, 4u);
  EXPECT_EQ(generation_of(groups[0], kSlotA), 65'537u) << "it may have been promoted elsewhere";
  EXPECT_EQ(generation_of(groups[0], kBeside), 4u);
  EXPECT_EQ(generation_of(groups[2], protocol::loader_address(2, 0)), 1u);
}

TEST(Shadows, TellsWhoHasNone) {
  const Protection whole = protection(crossed(), all_but({}));
  EXPECT_EQ(whole.shadowed, 2u);
  EXPECT_EQ(whole.unprotected, 0u);
  const Protection half = protection(crossed(), all_but({"b"}));
  EXPECT_EQ(half.shadowed, 1u);
  EXPECT_EQ(half.unprotected, 1u);
}

TEST(Rosters, GenerationsAreThoseOfRoles) {
  protocol::Roster roster{crossed()};
  promote({kSlotA, "a", "b", 5}, &roster.processes);
  const auto generations = later_generations(roster);
  EXPECT_EQ(generations.at(kSlotA), 5u);
  EXPECT_EQ(generations.at(kSlotB), 7u);
}

TEST(Rosters, ARestartIsOfTheRoleNotOfItsProcess) {
  RestartBook book;
  protocol::Roster roster{crossed()};
  EXPECT_EQ(book.take(roster).size(), 3u) << "those that are not in their first";
  promote({kSlotA, "a", "b", 5}, &roster.processes);
  EXPECT_EQ(book.take(roster), (std::vector<protocol::RoleGeneration>{{kSlotA, 5}}));
  EXPECT_TRUE(book.take(roster).empty()) << "told once";
  start_again(&roster.processes[1]);
  EXPECT_EQ(book.take(roster), (std::vector<protocol::RoleGeneration>{{kSlotA, 6}, {kSlotB, 8}}));
  roster.processes[0].roles.push_back(protocol::constructor_address(0, 2));
  EXPECT_TRUE(book.take(roster).empty()) << "one more of a later tree is no restart";
}

}  // namespace
}  // namespace overlord::keeper
