// The keeper dies at any message, while the roles that it keeps die as well. The next one knows
// nothing: it finds those that live, starts the others in a generation that nobody has seen, and
// the stream is the same.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulation/checkers/all.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace keeper_test {

Layout without_mercy(uint64_t seed) {
  Layout layout = stormy(seed);
  layout.keeper.kills = 1 + seed % 9;
  layout.keeper.rarity = 2 + seed % 30;
  return layout;
}

TEST(Keeper, MayDieAtAnyMessage) {
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, kSteps);
  uint64_t keepers = 0, kills = 0;
  const uint64_t worlds = for_each_seed({400}, [&](uint64_t seed) {
    auto cluster = start(scenario, job, seed, without_mercy(seed));
    const bool finished = cluster->run(kSteps);
    ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, expected), checkers::kKept);
    keepers += cluster->sightings().keeper_kills;
    kills += cluster->sightings().kills;
  });
  if (worlds < 25) return;  // one of them, run again
  EXPECT_GT(keepers, 2 * worlds);
  EXPECT_GT(kills, 2 * worlds);
}

// A process that knows a roster from before the tree is told of the tree by the next keeper: it has
// taken it when it has its roles in it, not before.
TEST(Keeper, MayDieWhileTheMeshChanges) {
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  auto plain = scenario.start(1);
  ASSERT_TRUE(plain->run(2 * kSteps));
  uint64_t keepers = 0, kills = 0;
  const auto world = [&](uint64_t seed) {
    auto cluster = start(scenario, job, seed, without_mercy(seed));
    const uint64_t before = seed % 4;
    ASSERT_TRUE(cluster->run(before)) << "hangs";
    std::optional<Result<StepIndex>> first;
    cluster->rebuild({*model::Mesh::make({{"dp", 4}}), std::nullopt},
                     [&](const Result<StepIndex>& answer) { first = answer; });
    const uint64_t kept = cluster->sightings().keeper_kills;
    ASSERT_TRUE(cluster->run(2 * kSteps - before)) << "hangs";
    ASSERT_TRUE(first.has_value());
    ASSERT_TRUE(first->ok()) << first->status().message();
    ASSERT_LT(**first, 2 * kSteps);
    ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
    for (const Rank rank : cluster->ranks()) {
      ASSERT_EQ(cluster->consumer(rank).content_chain(), plain->consumer(rank).content_chain());
    }
    ASSERT_EQ(checkers::progress(*cluster, true), checkers::kKept);
    ASSERT_EQ(checkers::fenced(*cluster), checkers::kKept);
    keepers += cluster->sightings().keeper_kills - kept;
    kills += cluster->sightings().kills;
  };
  // A process that had called the keeper died before it served: the next one had the roster before
  // the tree.
  const uint64_t worlds = for_each_seed({150, {584, 1738}}, world);
  if (worlds < 25) return;  // one of them, run again
  EXPECT_GT(keepers, worlds);
  EXPECT_GT(kills, 2 * worlds);
}

template <typename Wanted>
bool is(const keeper::Input& input) {
  return std::holds_alternative<Wanted>(input);
}
template <typename Wanted>
bool tells(const keeper::Input& input) {
  const auto* heard = std::get_if<keeper::Heard>(&input);
  return heard != nullptr && std::holds_alternative<Wanted>(heard->control);
}

// A keeper that forgets one kind of message is found out.
TEST(Keeper, AMutantThatDropsAMessageIsCaught) {
  const std::vector<std::pair<std::string, std::function<bool(const keeper::Input&)>>> mutants = {
      {"Connected", is<keeper::Connected>},
      {"Ended", is<keeper::Ended>},
      {"Attach", tells<protocol::Attach>},
      {"TreeChanged", is<keeper::TreeChanged>},
      {"TreeTaken", tells<protocol::TreeTaken>}};
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  for (const auto& [name, deaf] : mutants) {
    uint64_t caught = 0;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      Layout layout = stormy(seed);
      layout.storm.kills = 4;
      layout.keeper.deaf = deaf;
      auto cluster = start(scenario, job, seed, layout);
      bool ready = false;
      cluster->rebuild({*model::Mesh::make({{"dp", 4}}), std::nullopt},
                       [&](const Result<StepIndex>&) { ready = true; });
      caught += cluster->run(kSteps) && ready ? 0 : 1;
    }
    EXPECT_GT(caught, 0u) << name;
  }
}

}  // namespace keeper_test
}  // namespace overlord::sim
