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
  EXPECT_TRUE(changed([](model::JobSpec& s) { s.sources[1].empty = model::EmptyRows::kSkip; }));
  EXPECT_TRUE(changed([](model::JobSpec& s) { s.packing.max_delay_steps = 9; }));
  using model::JobSpec;
  EXPECT_TRUE(changed([](JobSpec& s) { s.batch_transform.function = "m:f"; }));
  EXPECT_FALSE(changed([](JobSpec& s) { s.batch_transform.workers = 9; }));
  EXPECT_TRUE(changed([](JobSpec& s) { s.mixture.unit = model::MixUnit::kBytes; }));
  EXPECT_TRUE(changed([](JobSpec& s) { s.mixture.max_passes = {0, 3}; }));
  EXPECT_TRUE(changed([](JobSpec& s) { s.mixture.grain = model::Grain::kSubstep; }));
  EXPECT_TRUE(changed([](JobSpec& s) {
    s.mixture.stages[0].ramp = model::Ramp::kLinear;
    s.mixture.stages[0].ramp_steps = 3;
  }));
  EXPECT_TRUE(changed([](JobSpec& s) { s.mixture.controller.kind = model::ControllerKind::kOdm; }));
}

TEST(ConfigDigest, KnowsWhatBecomesOfMedia) {
  const auto digest = [](auto change) {
    model::JobSpec spec = sample_spec();
    model::MediaUse use;
    use.transform = "resize width=8 height=8";
    change(use);
    spec.sources[0].media = {{"image", {"png"}, use}};
    return config_digest(spec);
  };
  const Digest base = digest([](model::MediaUse&) {});
  EXPECT_NE(digest([](model::MediaUse& use) { use.kind = model::MediaKind::kAudio; }), base);
  EXPECT_NE(digest([](model::MediaUse& use) { use.transform = "mono"; }), base);
  EXPECT_NE(digest([](model::MediaUse& use) { use.pads = 4; }), base);
  EXPECT_NE(digest([](model::MediaUse& use) { use.in_text = true; }), base);
  const Digest called = digest([](model::MediaUse& use) { use.function.function = "m:f"; });
  EXPECT_NE(called, base);
  EXPECT_NE(digest([](model::MediaUse& use) {
              use.function.function = "m:f";
              use.function.version = "2";
            }),
            called);
  EXPECT_EQ(digest([](model::MediaUse& use) {
              use.function.function = "m:f";
              use.function.workers = 9;  // how it is run
            }),
            called);
  EXPECT_NE(digest([](model::MediaUse& use) { use.units_per_pad = 4; }),
            digest([](model::MediaUse& use) { use.pads = 4; }));
}

TEST(ConfigDigest, KnowsHowManyBlobsAFieldHas) {
  model::JobSpec spec = sample_spec();
  spec.sources[0].media = {{"image", {"png"}}};
  const Digest one = config_digest(spec);
  spec.sources[0].media[0].many = true;
  EXPECT_NE(config_digest(spec), one);
}

TEST(ConfigDigest, KnowsWhatAControllerFollowsAndNothingElse) {
  model::JobSpec spec = sample_spec();
  spec.mixture.controller.kind = model::ControllerKind::kOdm;
  const Digest base = config_digest(spec);
  spec.mixture.controller.fit_every = 5;  // ado's
  EXPECT_EQ(config_digest(spec), base);
  spec.mixture.controller.delay = 5;
  EXPECT_NE(config_digest(spec), base);
}

// As it was before mixtures could move: old states and journals keep their meaning.
TEST(ConfigDigest, AMixtureThatDoesNotMoveKeepsItsDigest) {
  EXPECT_EQ(config_digest(sample_spec()).hex(), "b2d19627d47e20a2c3fa30ce03da2199");
}

// As it was before strategies could have a second module.
TEST(StrategyDigest, OneModuleKeepsItsDigestAndTheSecondCounts) {
  model::Strategy strategy;
  EXPECT_EQ(strategy_digest(strategy).hex(), "a1fbf307b1070087eb3e659087d03338");
  EXPECT_FALSE(strategy.is_declared());
  strategy.encoder.emplace();
  EXPECT_TRUE(strategy.is_declared());
  const Digest base = strategy_digest(strategy);
  EXPECT_NE(base.hex(), "a1fbf307b1070087eb3e659087d03338");
  const auto changed = [&](auto change) {
    model::Strategy other = strategy;
    change(&other);
    return strategy_digest(other) != base;
  };
  EXPECT_TRUE(changed([](model::Strategy* s) { s->encoder->module = "vision"; }));
  EXPECT_TRUE(changed([](model::Strategy* s) { s->encoder->axis = "dp"; }));
  EXPECT_TRUE(changed([](model::Strategy* s) { s->encoder->group_size = 2; }));
  EXPECT_TRUE(changed([](model::Strategy* s) { s->encoder->column = "audio_frames"; }));
  EXPECT_TRUE(changed([](model::Strategy* s) { s->encoder->cost.bin_q32 = 1; }));
  EXPECT_TRUE(changed([](model::Strategy* s) { s->encoder->parity = true; }));
  EXPECT_TRUE(changed([](model::Strategy* s) { s->encoder->bytes_per_unit = 2; }));
  EXPECT_TRUE(changed([](model::Strategy* s) { s->further_costs.emplace_back(); }));
  EXPECT_TRUE(
      changed([](model::Strategy* s) { s->encoder->balance = model::BalanceMethod::kLpt; }));
}

TEST(ConfigDigest, IgnoresWhoReadsAndWhereFilesLie) {
  model::JobSpec spec = sample_spec();
  const Digest base = config_digest(spec);
  spec.sources[0].loaders = 9;
  spec.sources[0].workers = 9;
  spec.sources[0].shadows = 2;
  spec.sources[0].shadow = model::ShadowKind::kLean;
  spec.sources[0].most_loaders = 9;
  spec.sources[0].measured = {.elapsed_ns = 9, .work_ns = 9, .media_ns = 5};
  spec.sources[0].files_here = false;
  spec.sources[0].files = {"elsewhere"};
  spec.sources[0].bad_rows_allowed = 9;  // decides where a run gives up, never what it holds
  spec.sources[1].tokenizer.path = "elsewhere/tokenizer.json";
  spec.max_steps = 1'000;
  EXPECT_EQ(config_digest(spec), base);
}

}  // namespace
}  // namespace overlord::protocol
