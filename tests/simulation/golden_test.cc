// Golden hashes (law 10): the same on x86_64 and aarch64, at any optimisation level, with any
// compiler. If one of these changes, every saved state and every recorded stream hash has lost its
// meaning: that is a breaking change of class "iteration order" and belongs in CHANGELOG.md.
#include <gtest/gtest.h>

#include "overlord/sim/scenario.h"

namespace overlord::sim {
namespace golden_test {

struct Golden {
  const char* name;
  model::Packing packing;
  model::Shuffle shuffle;
  model::Quota quota;
  model::MixUnit unit;
  const char* content;
  const char* stream;
};

constexpr Golden kGolden[] = {
    {"best_fit", model::Packing::kBestFit, model::Shuffle::kWindow, model::Quota::kExact,
     model::MixUnit::kTokens, "a5ef3ae7294964570b15f2f9d7e739a0",
     "cb78197677a6f581a4e3875839a0541f"},
    {"concat", model::Packing::kConcat, model::Shuffle::kFull, model::Quota::kMultinomial,
     model::MixUnit::kTokens, "61c34bd7917a34512088bd6d19c56ccb",
     "ef2b2c72aa7c10b0a0de6a739d3a2915"},
    {"pad", model::Packing::kPad, model::Shuffle::kNone, model::Quota::kExact,
     model::MixUnit::kSamples, "173d2218f9fc7b38af489fc853358c6f",
     "6006abfad83da8026bf160777342b979"},
};

TEST(Golden, HashesAreTheSameEverywhere) {
  for (const Golden& golden : kGolden) {
    Scenario scenario = Scenario::small(20'250'414);
    scenario.spec.packing.method = golden.packing;
    scenario.spec.mixture.quota = golden.quota;
    scenario.spec.mixture.unit = golden.unit;
    for (model::Source& source : scenario.spec.sources) source.shuffle = golden.shuffle;
    scenario.spec.align = 4;
    scenario.axes = {{"pp", 2}, {"dp", 2}, {"cp", 2}, {"tp", 2}};
    auto cluster = scenario.start(1);
    ASSERT_TRUE(cluster->run(12));
    EXPECT_EQ(cluster->consumer(0).content_chain().hex(), golden.content) << golden.name;
    EXPECT_EQ(cluster->stream_hash().hex(), golden.stream) << golden.name;
  }
}

}  // namespace golden_test
}  // namespace overlord::sim
