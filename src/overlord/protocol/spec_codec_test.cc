#include "overlord/protocol/spec_codec.h"

#include <gtest/gtest.h>

namespace overlord::protocol {
namespace {

model::JobSpec sample_spec() {
  model::JobSpec spec;
  spec.seed = 7;
  spec.context = 128;
  spec.bins = 8;
  spec.sources.resize(2);
  spec.sources[0].name = "a";
  spec.sources[1].name = "b";
  spec.mixture.stages = {{0, {1, 2}}};
  return spec;
}

TEST(ConfigDigest, ChangesWithWhatDecidesTheStream) {
  const Digest base = config_digest(sample_spec());
  const auto changed = [&](auto change) {
    model::JobSpec spec = sample_spec();
    change(spec);
    return config_digest(spec) != base;
  };
  EXPECT_TRUE(changed([](model::JobSpec& s) { s.seed = 8; }));
  EXPECT_TRUE(changed([](model::JobSpec& s) { s.context = 256; }));
  EXPECT_TRUE(changed([](model::JobSpec& s) { s.align = 2; }));
  EXPECT_TRUE(changed([](model::JobSpec& s) { s.mixture.stages[0].weights[1] = 3; }));
  EXPECT_TRUE(changed([](model::JobSpec& s) { s.sources[0].eod = 0; }));
  EXPECT_TRUE(changed([](model::JobSpec& s) { s.sources[1].shuffle = model::Shuffle::kFull; }));
  EXPECT_TRUE(changed([](model::JobSpec& s) { s.packing.max_delay_steps = 9; }));
}

TEST(ConfigDigest, IgnoresWhoReadsAndWhereFilesLie) {
  model::JobSpec spec = sample_spec();
  const Digest base = config_digest(spec);
  spec.sources[0].loaders = 9;
  spec.sources[0].workers = 9;
  spec.sources[0].files = {"elsewhere"};
  spec.sources[0].bad_rows_allowed = 9;  // decides where a run gives up, never what it holds
  spec.sources[1].tokenizer.path = "elsewhere/tokenizer.json";
  spec.max_steps = 1'000;
  EXPECT_EQ(config_digest(spec), base);
}

}  // namespace
}  // namespace overlord::protocol
