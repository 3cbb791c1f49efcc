// Ranks die. One alone comes back where it was, while the others wait; when all die, a new attempt
// goes on from the state that they saved. What was prefetched is no progress: nothing is lost and
// nothing comes twice.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "overlord/sim/scenario.h"
#include "simulation/checkers/all.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace ranks_test {

TEST(Ranks, OneMayDieAndComeBackWhereItWas) {
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  const Digest expected = quiet_hash(scenario, kSteps);
  uint64_t deaths = 0;
  const uint64_t worlds =
      for_each_seed({100, {190, 214, 332, 346, 366, 394, 414, 482, 548}}, [&](uint64_t seed) {
        Layout layout = seed % 2 == 0 ? stormy(seed) : Layout{};
        layout.split = true;
        layout.keeper.kills = seed % 3;
        layout.rank_deaths = {1 + seed % 8, 8 + seed % 40, 400'000};
        auto cluster = start(scenario, job, seed, layout);
        const bool finished = cluster->run(kSteps);
        ASSERT_EQ(checkers::undisturbed(*cluster, finished, scenario, expected), checkers::kKept);
        deaths += cluster->world().landed().of(Fault::kRankDies);
      });
  if (worlds < seeds::kStorm) return;
  EXPECT_GT(deaths, worlds);
}

using Digests = std::vector<std::vector<Digest>>;  // of microbatches, by rank

void add(SimCluster& cluster, Digests* all) {
  for (const Rank rank : cluster.ranks()) {
    for (const auto& batch : cluster.delivered(rank).batches) {
      (*all)[rank].push_back(batch->digest);
    }
  }
}

// What is still on its way from the attempt before reaches the next.
void haunt(const std::vector<protocol::Envelope>& before, SimCluster* cluster) {
  for (const protocol::Envelope& envelope : before) cluster->transport().send(envelope);
}

TEST(Ranks, AllMayDieAndANewAttemptGoesOnFromTheirState) {
  const Scenario scenario = spread_out();
  const auto job = scenario.open();
  auto quiet = scenario.start(1);
  ASSERT_TRUE(quiet->run(kSteps));
  Digests expected(scenario.all_ranks().size());
  add(*quiet, &expected);
  for_each_seed({100}, [&](uint64_t seed) {
    Digests got(expected.size());
    protocol::ResumeState state = host::start_state(*job);
    std::vector<protocol::Envelope> sent;
    uint64_t done = 0;
    for (uint32_t attempt = 1; done < kSteps; ++attempt) {
      Layout layout = stormy(seed + attempt);
      layout.attempt = attempt;
      SimCluster cluster(job, *scenario.objects, scenario.all_ranks(), scenario.options, state,
                         seed + 1000 * attempt, layout);
      haunt(sent, &cluster);
      sent.clear();
      cluster.transport().on_the_way = [&](protocol::Envelope envelope) {
        if (envelope.versions.attempt == attempt) sent.push_back(envelope);
        if (sent.size() > 40) sent.erase(sent.begin());
        return envelope;
      };
      const uint64_t steps = std::min(kSteps - done, 1 + (seed + attempt) % 4);
      ASSERT_TRUE(cluster.run(steps)) << "hangs";
      ASSERT_FALSE(cluster.failure()) << cluster.failure()->message();
      ASSERT_EQ(checkers::fenced(cluster), checkers::kKept);
      add(cluster, &got);
      done += steps;
      const auto saved =
          protocol::decode_resume_state(protocol::encode_resume_state(cluster.consumer(0).state()));
      ASSERT_TRUE(saved.ok());
      state = *saved;
    }
    ASSERT_EQ(got, expected);
  });
}

}  // namespace ranks_test
}  // namespace overlord::sim
