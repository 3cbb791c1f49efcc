#include "overlord/plan/mix/mixing.h"

#include <gtest/gtest.h>

#include "overlord/plan/place/made_up_job_test.h"

namespace overlord::plan {
namespace {

using model::EndPolicy;
using model::kWeightOne;
using model::OverLength;
using model::SourceCursor;

// Draws up to `count` documents of one step.
struct Drawn {
  std::vector<SampleId> ids;
  std::vector<uint64_t> tokens;  // by source
  Draw last = Draw::kReady;
  std::vector<SourceCursor> cursors;
  std::vector<uint64_t> asked;
  MetaNeed need;
  Status failure;
};

Drawn draw(const MadeUpJob& job, const std::vector<MetaBuffer>& meta, uint64_t count,
           StepIndex step = 0, std::vector<SourceCursor> cursors = {}) {
  if (cursors.empty()) cursors.resize(job.sources.size());
  Mixer mixer;
  Drawn out;
  out.failure = mixer.begin(job.spec, job.rows, meta, cursors, step);
  if (!out.failure.ok()) return out;
  out.tokens.resize(job.sources.size());
  while (out.ids.size() < count && (out.last = mixer.next()) == Draw::kReady) {
    out.ids.push_back(mixer.document().id);
    out.tokens[out.ids.back().source] += mixer.document().tokens;
    mixer.take();
  }
  out.need = mixer.need();
  out.failure = mixer.failure();
  mixer.finish(&out.cursors, &out.asked);
  return out;
}

std::vector<SourceIndex> sources_of(const Drawn& drawn) {
  std::vector<SourceIndex> out;
  for (const SampleId& id : drawn.ids) out.push_back(id.source);
  return out;
}

TEST(Mixer, TakesEachSourcesDocumentsInOrder) {
  MadeUpJob job(100, 1);
  job.add(std::vector<uint32_t>(40, 10), EndPolicy::kRepeat);
  const auto drawn = draw(job, job.post(1), 20);
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(drawn.ids[i], (SampleId{0, 0, i}));
  EXPECT_EQ(drawn.cursors[0].position, 20u);
  EXPECT_EQ(drawn.cursors[0].samples, 20u);
  EXPECT_EQ(drawn.cursors[0].tokens, 200u);
}

TEST(Mixer, DealsByWeightAndBreaksTiesByIndex) {
  MadeUpJob job(100, 1);
  job.spec.mixture.unit = model::MixUnit::kSamples;
  for (int64_t weight : {3, 1}) job.add(std::vector<uint32_t>(64, 10), EndPolicy::kRepeat, weight);
  const auto drawn = draw(job, job.post(1), 8);
  EXPECT_EQ(sources_of(drawn), (std::vector<SourceIndex>{0, 1, 0, 0, 0, 1, 0, 0}));
}

TEST(Mixer, CountsTokensNotDocuments) {
  MadeUpJob job(100, 1);
  job.add(std::vector<uint32_t>(2000, 10), EndPolicy::kRepeat);
  job.add(std::vector<uint32_t>(2000, 90), EndPolicy::kRepeat);
  const auto drawn = draw(job, job.post(1), 1000);
  EXPECT_NEAR(static_cast<int64_t>(drawn.tokens[0]), static_cast<int64_t>(drawn.tokens[1]), 90);
}

TEST(Mixer, AWeightOfZeroNeverDraws) {
  MadeUpJob job(100, 1);
  job.add(std::vector<uint32_t>(10, 10), EndPolicy::kRepeat, 0);
  job.add(std::vector<uint32_t>(10, 10), EndPolicy::kRepeat, 1);
  for (auto quota : {model::Quota::kExact, model::Quota::kMultinomial}) {
    job.spec.mixture.quota = quota;
    const auto drawn = draw(job, job.post(9), 50);
    EXPECT_EQ(drawn.tokens[0], 0u);
    EXPECT_EQ(drawn.ids.size(), 50u);
  }
}

TEST(Mixer, TheStageOfTheStepDecides) {
  MadeUpJob job(100, 1);
  job.add(std::vector<uint32_t>(50, 10), EndPolicy::kRepeat);
  job.add(std::vector<uint32_t>(50, 10), EndPolicy::kRepeat);
  job.spec.mixture.stages = {{0, {1, 0}}, {5, {0, 1}}, {9, {1, 1}}};
  const auto meta = job.post(1);
  EXPECT_EQ(draw(job, meta, 10, 0).tokens, (std::vector<uint64_t>{100, 0}));
  EXPECT_EQ(draw(job, meta, 10, 4).tokens, (std::vector<uint64_t>{100, 0}));
  EXPECT_EQ(draw(job, meta, 10, 5).tokens, (std::vector<uint64_t>{0, 100}));
  EXPECT_EQ(draw(job, meta, 10, 1000).tokens, (std::vector<uint64_t>{50, 50}));
}

TEST(Mixer, RefusesMixturesThatMakeNoSense) {
  MadeUpJob job(100, 1);
  job.add({1}, EndPolicy::kRepeat);
  const auto meta = job.post(1);
  const auto code_of = [&](std::vector<model::MixtureStage> stages) {
    job.spec.mixture.stages = std::move(stages);
    return draw(job, meta, 1).failure.code();
  };
  EXPECT_EQ(code_of({}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({{3, {1}}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({{0, {1, 1}}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({{0, {0}}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({{0, {-1}}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({{0, {kMaxWeight + 1}}}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({{0, {kMaxWeight}}}), Code::kOk);
  std::vector<SourceCursor> two(2);
  EXPECT_EQ(draw(job, meta, 1, 0, two).failure.code(), Code::kStateMismatch);
}

TEST(Mixer, ExtremeWeightsKeepTheirRatio) {
  MadeUpJob job(1 << 20, 1);
  job.add(std::vector<uint32_t>(5000, 1 << 20), EndPolicy::kRepeat, kMaxWeight);
  job.add(std::vector<uint32_t>(5000, 1 << 20), EndPolicy::kRepeat, 1);
  job.add(std::vector<uint32_t>(5000, 1 << 20), EndPolicy::kRepeat, kMaxWeight);
  const auto drawn = draw(job, job.post(1), 9001);
  EXPECT_EQ(drawn.cursors[1].samples, 1u);  // its debt is paid back in 2^44 documents
  EXPECT_EQ(drawn.cursors[0].samples, 4500u);
  EXPECT_EQ(drawn.cursors[2].samples, 4500u);
}

TEST(Mixer, RepeatGoesOnWithTheNextPass) {
  MadeUpJob job(100, 1);
  job.add({1, 2, 3}, EndPolicy::kRepeat);
  const auto drawn = draw(job, job.post(3), 7);
  EXPECT_EQ(drawn.ids[3], (SampleId{0, 1, 0}));
  EXPECT_EQ(drawn.ids[6], (SampleId{0, 2, 0}));
  EXPECT_FALSE(drawn.cursors[0].dry);
}

TEST(Mixer, DropLeavesTheRestToTheOthers) {
  MadeUpJob job(100, 1);
  job.add(std::vector<uint32_t>(4, 10), EndPolicy::kDrop);
  job.add(std::vector<uint32_t>(100, 10), EndPolicy::kRepeat, 3 * kWeightOne);
  job.add(std::vector<uint32_t>(100, 10), EndPolicy::kRepeat, 1 * kWeightOne);
  const auto drawn = draw(job, job.post(1), 104);
  EXPECT_TRUE(drawn.cursors[0].dry);
  EXPECT_EQ(drawn.cursors[0].samples, 4u);
  EXPECT_NEAR(static_cast<int64_t>(drawn.cursors[1].samples), 75, 2);
  EXPECT_NEAR(static_cast<int64_t>(drawn.cursors[2].samples), 25, 2);
}

TEST(Mixer, WhatWasAskedBeforeASourceRanDryStillCounts) {
  MadeUpJob job(100, 1);
  job.add({10}, EndPolicy::kDrop);
  job.add(std::vector<uint32_t>(50, 100), EndPolicy::kRepeat);
  job.add(std::vector<uint32_t>(50, 10), EndPolicy::kRepeat);
  // When source 0 is found dry, source 1 is 90 tokens ahead: source 2 gives nine documents first.
  EXPECT_EQ(sources_of(draw(job, job.post(1), 14)),
            (std::vector<SourceIndex>{0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 2}));
}

TEST(Mixer, AllDryIsOver) {
  MadeUpJob job(100, 1);
  job.add(std::vector<uint32_t>(4, 10), EndPolicy::kDrop);
  job.add(std::vector<uint32_t>(7, 10), EndPolicy::kDrop);
  for (auto quota : {model::Quota::kExact, model::Quota::kMultinomial}) {
    job.spec.mixture.quota = quota;
    const auto drawn = draw(job, job.post(1), 1000);
    EXPECT_EQ(drawn.last, Draw::kOver);
    EXPECT_EQ(drawn.ids.size(), 11u);
    const auto after = draw(job, job.post(1), 1000, 1, drawn.cursors);
    EXPECT_EQ(after.last, Draw::kOver);
    EXPECT_TRUE(after.ids.empty());
  }
}

TEST(Mixer, StopEndsForAll) {
  MadeUpJob job(100, 1);
  job.add(std::vector<uint32_t>(50, 10), EndPolicy::kRepeat);
  job.add(std::vector<uint32_t>(4, 10), EndPolicy::kStop);
  const auto drawn = draw(job, job.post(1), 1000);
  EXPECT_EQ(drawn.last, Draw::kOver);
  EXPECT_EQ(drawn.cursors[1].samples, 4u);
  EXPECT_EQ(drawn.cursors[0].samples, 5u);  // one more than the four, by its turn
  EXPECT_TRUE(draw(job, job.post(1), 9, 1, drawn.cursors).ids.empty());
}

TEST(Mixer, WaitsForWhatIsNotPosted) {
  MadeUpJob job(100, 1);
  job.window_rows = 5;
  job.add(std::vector<uint32_t>(20, 10), EndPolicy::kRepeat);
  job.add(std::vector<uint32_t>(20, 10), EndPolicy::kRepeat);
  std::vector<MetaBuffer> meta(2);
  EXPECT_EQ(draw(job, meta, 9).need, (MetaNeed{0, 0, 0}));
  meta[0].post(job.window(0, 0, 0));
  EXPECT_EQ(draw(job, meta, 9).need, (MetaNeed{1, 0, 0}));
  meta[1].post(job.window(1, 0, 0));
  const auto drawn = draw(job, meta, 30);
  EXPECT_EQ(drawn.last, Draw::kWait);
  EXPECT_EQ(drawn.ids.size(), 10u);
  EXPECT_EQ(drawn.need, (MetaNeed{0, 0, 5}));
}

TEST(Mixer, BadRowsKeepTheirPlace) {
  MadeUpJob job(100, 1);
  job.add({10, 0, 0, 10, 10, 0}, EndPolicy::kDrop).bad_rows_allowed = 3;
  const auto drawn = draw(job, job.post(1), 9);
  EXPECT_EQ(drawn.ids.size(), 3u);
  EXPECT_EQ(drawn.ids[1].position, 3u);
  EXPECT_EQ(drawn.cursors[0].bad, 3u);
  EXPECT_EQ(drawn.cursors[0].position, 6u);
  EXPECT_EQ(drawn.cursors[0].tokens, 30u);
}

TEST(Mixer, SkippedRowsKeepTheirPlaceAndCountInNoBudget) {
  MadeUpJob job(100, 1);
  job.add({10, model::kEmptyRow, model::kEmptyRow, 10, 10, model::kEmptyRow}, EndPolicy::kDrop);
  const auto drawn = draw(job, job.post(1), 9);
  EXPECT_EQ(drawn.ids.size(), 3u);
  EXPECT_EQ(drawn.ids[1].position, 3u);
  EXPECT_EQ(drawn.cursors[0].bad, 0u);
  EXPECT_EQ(drawn.cursors[0].position, 6u);
}

TEST(Mixer, TooManyBadRowsNameTheSourceAndTheRow) {
  MadeUpJob job(100, 1);
  job.window_rows = 2;
  job.add({10, 10, 10, 0, 10, 0}, EndPolicy::kRepeat).bad_rows_allowed = 1;
  const auto drawn = draw(job, job.post(2), 9);
  EXPECT_EQ(drawn.last, Draw::kFailed);
  EXPECT_EQ(drawn.failure.code(), Code::kBudgetExceeded);
  for (const char* part : {"source0", "allowed 1", "position 3", "torn row 3"}) {
    EXPECT_NE(drawn.failure.message().find(part), std::string::npos) << drawn.failure.message();
  }
}

TEST(Mixer, TheBudgetHoldsForEveryPassAnew) {
  MadeUpJob job(100, 1);
  job.window_rows = 2;
  job.add({10, 10, 10, 0, 10, 0}, EndPolicy::kRepeat).bad_rows_allowed = 2;
  const auto drawn = draw(job, job.post(4), 14);
  EXPECT_NE(drawn.last, Draw::kFailed) << drawn.failure.message();
  EXPECT_GE(drawn.cursors[0].bad, 4u);
}

TEST(Mixer, LongDocumentsFollowTheirPolicy) {
  MadeUpJob job(100, 1);
  job.add({10, 250, 10}, EndPolicy::kDrop);
  job.spec.sources[0].over_length = OverLength::kSplit;
  EXPECT_EQ(draw(job, job.post(1), 9).tokens[0], 270u);
  job.spec.sources[0].over_length = OverLength::kTruncate;
  const auto truncated = draw(job, job.post(1), 9);
  EXPECT_EQ(truncated.tokens[0], 120u);
  EXPECT_EQ(truncated.cursors[0].dropped, 1u);
  job.spec.sources[0].over_length = OverLength::kDrop;
  const auto dropped = draw(job, job.post(1), 9);
  EXPECT_EQ(dropped.tokens[0], 20u);
  EXPECT_EQ(dropped.cursors[0].dropped, 1u);
  EXPECT_EQ(dropped.cursors[0].position, 3u);
}

TEST(Mixer, APassWithoutADocumentIsAnErrorNotALoop) {
  MadeUpJob job(100, 1);
  job.add({200, 0, 300}, EndPolicy::kRepeat);
  job.spec.sources[0].over_length = OverLength::kDrop;
  job.spec.sources[0].bad_rows_allowed = 100;
  const auto drawn = draw(job, job.post(3), 9);
  EXPECT_EQ(drawn.failure.code(), Code::kInvalidArgument);
  EXPECT_EQ(
      drawn.failure.message(),
      "a whole pass holds no document to draw: source source0: of 3 rows none can be used, "
      "2 are longer than context = 100 (over_length: drop), 1 are bad, the first: torn row 1");
  MadeUpJob empty(100, 1);
  empty.add({}, EndPolicy::kRepeat);
  EXPECT_EQ(draw(empty, empty.post(1), 9).failure.code(), Code::kInvalidArgument);
}

TEST(Mixer, LookingIsNotTaking) {
  MadeUpJob job(100, 1);
  job.add({10, 20}, EndPolicy::kDrop);
  const auto meta = job.post(1);
  std::vector<SourceCursor> cursors(1);
  Mixer mixer;
  ASSERT_TRUE(mixer.begin(job.spec, job.rows, meta, cursors, 0).ok());
  EXPECT_EQ(mixer.next(), Draw::kReady);
  EXPECT_EQ(mixer.next(), Draw::kReady);
  EXPECT_EQ(mixer.document().id.position, 0u);
  std::vector<uint64_t> asked;
  mixer.finish(&cursors, &asked);
  EXPECT_EQ(cursors[0], SourceCursor());
}

TEST(Mixer, MultinomialFollowsTheWeightsOnAverage) {
  MadeUpJob job(1000, 1);
  job.add(text_lengths(1, 40'000, 400), EndPolicy::kRepeat, 6);
  job.add(text_lengths(2, 40'000, 900), EndPolicy::kRepeat, 3);
  job.add(text_lengths(3, 40'000, 50), EndPolicy::kRepeat, 1);
  job.spec.mixture.quota = model::Quota::kMultinomial;
  const auto meta = job.post(2);
  for (auto unit : {model::MixUnit::kTokens, model::MixUnit::kSamples}) {
    job.spec.mixture.unit = unit;
    std::vector<SourceCursor> cursors(3);
    std::vector<uint64_t> asked(3);
    for (StepIndex step = 0; step < 100; ++step) {
      const auto drawn = draw(job, meta, 300, step, cursors);
      cursors = drawn.cursors;
      for (int s = 0; s < 3; ++s) asked[s] += drawn.asked[s];
    }
    const bool tokens = unit == model::MixUnit::kTokens;
    const auto units = [&](int s) {
      return static_cast<int64_t>(tokens ? cursors[s].tokens : cursors[s].samples);
    };
    const int64_t total = units(0) + units(1) + units(2);
    EXPECT_NEAR(units(0) * 1000 / total, 600, 20);
    EXPECT_NEAR(units(1) * 1000 / total, 300, 20);
    EXPECT_NEAR(units(2) * 1000 / total, 100, 20);
    for (int s = 0; s < 3; ++s) {
      EXPECT_EQ(static_cast<int64_t>(asked[s]), units(s) + (cursors[s].debt >> kDebtBits));
    }
  }
}

TEST(Mixer, MultinomialIsKeyedByStepAndSeed) {
  MadeUpJob job(100, 1);
  job.spec.mixture.quota = model::Quota::kMultinomial;
  job.spec.mixture.unit = model::MixUnit::kSamples;
  for (int s = 0; s < 4; ++s) job.add(std::vector<uint32_t>(100, 10), EndPolicy::kRepeat);
  const auto meta = job.post(1);
  const auto first = sources_of(draw(job, meta, 50, 3));
  EXPECT_EQ(sources_of(draw(job, meta, 50, 3)), first);
  EXPECT_NE(sources_of(draw(job, meta, 50, 4)), first);
  job.spec.seed = 1;
  EXPECT_NE(sources_of(draw(job, meta, 50, 3)), first);
}

// Law 10 and the promise in the header: at the end of every step nobody is behind, nobody is ahead
// by more than a document, and what was asked is the weights' share of virtual time.
TEST(MixerProperty, ExactQuotasNeverDrift) {
  for (uint64_t trial = 0; trial < 60; ++trial) {
    const uint64_t key = derive_key(5, "drift", trial);
    MadeUpJob job(4096, 1);
    const uint64_t sources = 1 + uniform_below(key, 0, 0, 8);
    std::vector<int64_t> longest(sources);
    int64_t total_weight = 0;
    for (uint64_t s = 0; s < sources; ++s) {
      longest[s] = static_cast<int64_t>(1 + uniform_below(key, s, 1, 9000));
      const auto weight = static_cast<int64_t>(1 + uniform_below(key, s, 2, kWeightOne));
      job.add(text_lengths(key + s, 3000, static_cast<uint32_t>(longest[s])), EndPolicy::kRepeat,
              weight);
      total_weight += weight;
    }
    const bool by_tokens = trial % 2 == 0;
    job.spec.mixture.unit = by_tokens ? model::MixUnit::kTokens : model::MixUnit::kSamples;
    job.window_rows = 500;
    const auto meta = job.post(3);
    std::vector<SourceCursor> cursors(sources);
    std::vector<int64_t> asked(sources);
    for (StepIndex step = 0; step < 40; ++step) {
      const auto drawn = draw(job, meta, 1 + uniform_below(key, step, 3, 70), step, cursors);
      cursors = drawn.cursors;
      int64_t all_asked = 0;
      for (uint64_t s = 0; s < sources; ++s) {
        asked[s] += static_cast<int64_t>(drawn.asked[s]);
        all_asked += asked[s];
      }
      for (uint64_t s = 0; s < sources; ++s) {
        const int64_t document = by_tokens ? longest[s] : 1;
        ASSERT_LE(cursors[s].debt, 0) << "trial " << trial << " step " << step;
        ASSERT_GE(cursors[s].debt, -document * kDebtOne - 1000) << "trial " << trial;
        const int64_t weight = job.spec.mixture.stages[0].weights[s];
        ASSERT_NEAR(asked[s], mul_div_floor(all_asked, weight, total_weight), sources + 1.0);
      }
    }
  }
}

}  // namespace
}  // namespace overlord::plan
