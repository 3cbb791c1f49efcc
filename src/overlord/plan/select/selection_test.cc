#include "overlord/plan/select/selection.h"

#include <gtest/gtest.h>

#include "overlord/plan/place/made_up_job_test.h"

namespace overlord::plan {
namespace {

using model::EndPolicy;
using model::Leftover;
using model::OverLength;
using model::Packing;
using model::Segment;

// Bins as "source:position[first,count)+": a plus where the document goes on.
std::string text(const StepContent& content) {
  std::string out;
  uint32_t at = 0;
  for (uint32_t end : content.bin_ends) {
    out += "|";
    for (; at < end; ++at) {
      const Segment& s = content.segments[at];
      out += " " + std::to_string(s.id.source) + ":" + std::to_string(s.id.position) + "[" +
             std::to_string(s.first) + "," + std::to_string(s.count) + ")";
      if (s.flags & Segment::kContinues) out += "+";
    }
  }
  return out;
}

std::vector<std::string> texts(const MadeUpJob& job, uint64_t most = 100) {
  const auto steps = run_steps(job, most);
  if (!steps.ok()) return {steps.status().message()};
  std::vector<std::string> out;
  for (const MadeUpStep& step : *steps) {
    out.push_back(text(step.content) + (step.content.last ? " last" : ""));
  }
  return out;
}

using Texts = std::vector<std::string>;

TEST(Selection, BestFitKeepsDocumentsWholeAndCarriesTheRest) {
  MadeUpJob job(10, 2);
  job.add({6, 5, 4, 7, 3, 5}, EndPolicy::kDrop);
  EXPECT_EQ(texts(job),
            (Texts{"| 0:3[0,7)| 0:0[0,6) 0:2[0,4)", "| 0:1[0,5) 0:5[0,5)| 0:4[0,3) last"}));
}

TEST(Selection, BinsFollowTheirStages) {
  MadeUpJob job(10, 1);
  job.spec.packing.method = Packing::kPad;
  job.spec.later_bins = {{1, 3}, {2, 2}};
  job.add({1, 2, 3, 4, 5, 6, 7}, EndPolicy::kDrop);
  EXPECT_EQ(texts(job), (Texts{"| 0:0[0,1)", "| 0:1[0,2)| 0:2[0,3)| 0:3[0,4)",
                               "| 0:4[0,5)| 0:5[0,6)", "| 0:6[0,7)| last"}));
}

TEST(Selection, DropLastEndsWithTheLastFullStep) {
  MadeUpJob job(10, 2);
  job.spec.packing.method = Packing::kPad;
  job.spec.leftover = Leftover::kDropLast;
  job.add({1, 2, 3, 4, 5}, EndPolicy::kDrop);
  EXPECT_EQ(texts(job), (Texts{"| 0:0[0,1)| 0:1[0,2)", "| 0:2[0,3)| 0:3[0,4) last"}));
  job.sources[0].lengths[4] = 0;  // nothing is left: the same
  job.spec.sources[0].bad_rows_allowed = 1;
  EXPECT_EQ(texts(job), (Texts{"| 0:0[0,1)| 0:1[0,2)", "| 0:2[0,3)| 0:3[0,4) last"}));
  job.spec.bins = 7;
  EXPECT_NE(texts(job)[0].find("do not fill the 7 bins of step 0"), std::string::npos);
}

TEST(Selection, AGroupIsInOneBinOrDropped) {
  MadeUpJob job(10, 2);
  job.spec.align = 2;
  model::Source& source = job.add({3, 3, 5, 5, 9, 1, 2, 2}, EndPolicy::kDrop);
  source.over_length = OverLength::kDrop;
  job.sources[0].group(2, job.window_rows);
  // Padded 4 + 4, 6 + 6 (too long), 10 + 2 (too long), 2 + 2.
  EXPECT_EQ(texts(job), (Texts{"| 0:0[0,3) 0:1[0,3)| 0:6[0,2) 0:7[0,2) last"}));
  job.sources[0].lengths[1] = 0;  // bad, and so the other is of no use
  source.bad_rows_allowed = 1;
  EXPECT_EQ(texts(job), (Texts{"| 0:6[0,2) 0:7[0,2)| last"}));
}

TEST(Selection, APartOfAPassIsTheBeginOfItsOrder) {
  MadeUpJob job(10, 2);
  job.spec.packing.method = Packing::kPad;
  job.spec.mixture.max_passes = {0};
  job.spec.mixture.part_passes = {model::kWeightOne / 4 * 3};
  job.add({1, 2, 3, 4}, EndPolicy::kRepeat);
  EXPECT_EQ(texts(job), (Texts{"| 0:0[0,1)| 0:1[0,2)", "| 0:2[0,3)| last"}));
  job.spec.sources[0].at_end = EndPolicy::kDrop;
  EXPECT_EQ(texts(job), (Texts{"| 0:0[0,1)| 0:1[0,2)", "| 0:2[0,3)| last"}));
  job.spec.mixture.part_passes = {1};  // a row at least
  EXPECT_EQ(texts(job), (Texts{"| 0:0[0,1)| last"}));
}

TEST(Selection, WithoutDelayADocumentIsDrawnOnlyWhereItFits) {
  MadeUpJob job(10, 2);
  job.spec.packing.max_delay_steps = 0;
  job.add({6, 5, 4, 7, 3, 25, 5}, EndPolicy::kDrop);
  EXPECT_EQ(texts(job), (Texts{"| 0:0[0,6) 0:2[0,4)| 0:1[0,5)", "| 0:3[0,7) 0:4[0,3)| 0:5[0,10)+",
                               "| 0:5[10,10)+| 0:5[20,5) 0:6[0,5) last"}));
}

TEST(Selection, ConcatFillsBinsToTheLastToken) {
  MadeUpJob job(10, 2);
  job.spec.packing.method = Packing::kConcat;
  job.add({6, 5, 4, 27, 3}, EndPolicy::kDrop);
  EXPECT_EQ(texts(job), (Texts{"| 0:0[0,6) 0:1[0,4)+| 0:1[4,1) 0:2[0,4) 0:3[0,5)+",
                               "| 0:3[5,10)+| 0:3[15,10)+", "| 0:3[25,2) 0:4[0,3)| last"}));
}

TEST(Selection, ConcatAlignsTheStartOfEveryDocument) {
  MadeUpJob job(12, 1);
  job.spec.packing.method = Packing::kConcat;
  job.spec.align = 4;
  job.add({5, 3, 6}, EndPolicy::kDrop);
  EXPECT_EQ(texts(job), (Texts{"| 0:0[0,5) 0:1[0,3)", "| 0:2[0,6) last"}));
  job.sources[0].lengths = {5, 6, 6};
  EXPECT_EQ(texts(job), (Texts{"| 0:0[0,5) 0:1[0,4)+", "| 0:1[4,2) 0:2[0,6) last"}));
}

TEST(Selection, PadGivesEachDocumentItsBin) {
  MadeUpJob job(10, 3);
  job.spec.packing.method = Packing::kPad;
  job.add({6, 14, 4}, EndPolicy::kDrop);
  EXPECT_EQ(texts(job), (Texts{"| 0:0[0,6)| 0:1[0,10)+| 0:1[10,4)", "| 0:2[0,4)|| last"}));
}

TEST(Selection, LongDocumentsAreSplitCutOrDropped) {
  MadeUpJob job(10, 2);
  job.add({25, 4}, EndPolicy::kDrop);
  EXPECT_EQ(texts(job)[0], "| 0:0[0,10)+| 0:0[10,10)+");
  job.spec.sources[0].over_length = OverLength::kTruncate;
  EXPECT_EQ(texts(job)[0], "| 0:0[0,10)| 0:1[0,4) last");
  job.spec.sources[0].over_length = OverLength::kDrop;
  EXPECT_EQ(texts(job)[0], "| 0:1[0,4)| last");
}

TEST(Selection, ADocumentLongerThanManyStepsKeepsTheDelayCap) {
  MadeUpJob job(10, 1);
  job.spec.packing.max_delay_steps = 1;
  job.add({5, 205, 5, 5}, EndPolicy::kDrop);
  const auto steps = run_steps(job, 1000);
  ASSERT_TRUE(steps.ok());
  EXPECT_LE(steps->size(), 24u);  // 22 would be without a gap
  for (const MadeUpStep& step : *steps) EXPECT_LE(step.content.max_delay, 1u);
}

TEST(Selection, ATailWaitsOutsideThePool) {
  MadeUpJob job(10, 1);
  job.add({16, 5}, EndPolicy::kDrop);
  auto state = initial_state(job.spec);
  state.next_step = 5;
  state.cursors[0].position = 1;
  state.carried = {{{0, 0, 0}, 0, 16, 10, 4, {}, false}, {{0, 0, 0}, 10, 16, 16, 5, {}, false}};
  const auto selection = select_step(job.spec, job.rows, state, job.post(1));
  ASSERT_TRUE(selection.ok() && selection->content);
  EXPECT_EQ(text(*selection->content), "| 0:0[0,10)+");
  ASSERT_EQ(selection->after.carried.size(), 1u);
  EXPECT_EQ(selection->after.carried[0].first, 10u);
  EXPECT_EQ(selection->after.carried[0].drawn_step, selection->after.next_step);
}

TEST(Selection, SubstepsPackOnlyWhatTheyDrew) {
  MadeUpJob job(10, 2);
  job.spec.packing.method = Packing::kConcat;
  job.add({4, 4, 4, 4, 4}, EndPolicy::kDrop);
  const auto whole = texts(job);
  job.spec.substeps = 2;
  EXPECT_EQ(texts(job), whole);  // in order there is no difference
  job.spec.packing.method = Packing::kBestFit;
  job.sources[0].lengths = {4, 4, 4, 5, 9};
  EXPECT_EQ(texts(job)[0], "| 0:0[0,4) 0:1[0,4)| 0:4[0,9)");
  job.spec.substeps = 1;
  EXPECT_EQ(texts(job)[0], "| 0:4[0,9)| 0:3[0,5) 0:0[0,4)");
}

TEST(Selection, TargetsFollowTheLossSpans) {
  MadeUpJob job(10, 1);
  job.add({8, 14}, EndPolicy::kDrop);
  job.sources[0].spans = {{{0, 3}}, {{9, 3}}};
  const auto steps = run_steps(job, 9);
  ASSERT_TRUE(steps.ok());
  // Document 0: tokens 1 and 2 are targets (0 is nobody's). Document 1, cut at 10: 9, 10 | 11.
  std::vector<uint32_t> targets;
  for (const MadeUpStep& step : *steps) {
    uint64_t sum = 0;
    for (const Segment& segment : step.content.segments) {
      targets.push_back(segment.targets);
      sum += segment.targets;
    }
    EXPECT_EQ(step.content.target_tokens, sum);
  }
  EXPECT_EQ(targets, (std::vector<uint32_t>{2, 2, 1}));
}

TEST(Selection, AMaskedDocumentWithoutSpansHasNoTargets) {
  MadeUpJob job(10, 1);
  job.spec.packing.max_delay_steps = 3;
  job.add({8, 7, 6}, EndPolicy::kDrop);
  job.sources[0].spans = {{}, {}, {{0, 6}}};
  const auto steps = run_steps(job, 9);
  ASSERT_TRUE(steps.ok());
  uint64_t targets = 0;
  for (const MadeUpStep& step : *steps) targets += step.content.target_tokens;
  EXPECT_EQ(targets, 5u);  // also after being carried
}

TEST(Selection, WaitsAndNamesTheFirstPosition) {
  MadeUpJob job(10, 2);
  job.window_rows = 2;
  job.add({6, 5, 4, 7, 3, 5}, EndPolicy::kDrop);
  std::vector<MetaBuffer> meta(1);
  const auto state = initial_state(job.spec);
  for (uint64_t first : {0, 2}) {
    const auto selection = select_step(job.spec, job.rows, state, meta);
    ASSERT_TRUE(selection.ok());
    EXPECT_FALSE(selection->content);
    ASSERT_EQ(selection->needs.size(), 1u);
    EXPECT_EQ(selection->needs[0], (MetaNeed{0, 0, first}));
    meta[0].post(job.window(0, 0, first));
  }
  EXPECT_TRUE(select_step(job.spec, job.rows, state, meta)->content);
}

TEST(Selection, StopEndsTheStreamAndDrains) {
  MadeUpJob job(10, 1);
  job.add({7, 6, 5}, EndPolicy::kStop);
  job.add(std::vector<uint32_t>(50, 8), EndPolicy::kRepeat);
  const auto steps = run_steps(job, 100);
  ASSERT_TRUE(steps.ok());
  EXPECT_TRUE(steps->back().after.ended);
  EXPECT_EQ(steps->back().after.cursors[0].samples, 3u);
  EXPECT_EQ(steps->back().after.leftover_dropped, 0u);
  uint64_t placed = 0;
  for (const MadeUpStep& step : *steps) placed += step.content.segments.size();
  EXPECT_EQ(placed,
            steps->back().after.cursors[0].samples + steps->back().after.cursors[1].samples);
}

TEST(Selection, DropCountedEndsWithTheStepThatIsNotFull) {
  MadeUpJob job(10, 2);
  job.spec.leftover = Leftover::kDrop;
  job.add({6, 6, 6, 6}, EndPolicy::kDrop);
  const auto steps = run_steps(job, 9);
  ASSERT_TRUE(steps.ok());
  // 24 tokens are more than a step of 20, so the first is full; the second is not and ends it.
  ASSERT_EQ(steps->size(), 2u);
  job.sources[0].lengths = {6, 6, 6};
  job.rows[0] = 3;
  const auto short_steps = run_steps(job, 9);
  ASSERT_EQ(short_steps->size(), 1u);
  EXPECT_EQ(short_steps->back().after.leftover_dropped, 6u);
  EXPECT_TRUE(short_steps->back().after.carried.empty());
  job.spec.leftover = Leftover::kDrain;
  EXPECT_EQ(run_steps(job, 9)->size(), 2u);
}

TEST(Selection, MaxStepsEndsWhateverIsLeft) {
  MadeUpJob job(10, 1);
  job.spec.max_steps = 3;
  job.add(std::vector<uint32_t>(50, 6), EndPolicy::kRepeat);
  const auto steps = run_steps(job, 99);
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), 3u);
  EXPECT_TRUE(steps->back().content.last);
  EXPECT_EQ(steps->back().after.leftover_dropped, 6 * steps->back().after.cursors[0].samples - 18);
  const auto more = select_step(job.spec, job.rows, steps->back().after, job.post(1));
  EXPECT_EQ(more.status().code(), Code::kOutOfRange);
}

TEST(Selection, TheLastStepIsNeverEmpty) {
  // The documents end exactly with a bin; only bad rows follow.
  for (Packing method : {Packing::kBestFit, Packing::kConcat, Packing::kPad}) {
    for (uint32_t delay : {0u, 4u}) {
      MadeUpJob job(10, 1);
      job.spec.packing = {method, 0, delay};
      job.add({10, 10, 10, 0, 0}, EndPolicy::kDrop).bad_rows_allowed = 2;
      const auto steps = run_steps(job, 9);
      ASSERT_TRUE(steps.ok());
      ASSERT_EQ(steps->size(), 3u);
      EXPECT_TRUE(steps->back().content.last);
    }
  }
}

TEST(Selection, ABudgetThatEndsTheNextStepLeavesThisOne) {
  MadeUpJob job(10, 1);
  job.spec.packing.method = Packing::kPad;
  job.add({10, 0, 10}, EndPolicy::kDrop);
  const auto meta = job.post(1);
  const auto first = select_step(job.spec, job.rows, initial_state(job.spec), meta);
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(first->content->last);
  EXPECT_EQ(select_step(job.spec, job.rows, first->after, meta).status().code(),
            Code::kBudgetExceeded);
}

TEST(Selection, NoDocumentAtAllIsToldSourceBySource) {
  MadeUpJob job(100, 1);
  job.add({0, 0, 0}, EndPolicy::kDrop).bad_rows_allowed = 3;
  job.add({200, 300}, EndPolicy::kDrop).over_length = OverLength::kDrop;
  job.add({50}, EndPolicy::kDrop, 0);
  job.add({model::kPassedOver, 0}, EndPolicy::kDrop).bad_rows_allowed = 1;
  const std::string told = "no source can serve a document: ";
  const std::string first =
      "source source0: of 3 rows none can be used, 3 are bad, the first: torn ";
  EXPECT_EQ(texts(job),
            std::vector<std::string>{
                told + first +
                "row 0; source source1: of 2 rows none can be used, 2 are longer than context = "
                "100 (over_length: drop); source source2: its weight is 0 at step 0; source "
                "source3: of 2 rows none can be used, 1 belong to other parts of its split, 1 are "
                "bad, the first: torn row 1"});
  MadeUpJob stopped(100, 1);
  stopped.add({0}, EndPolicy::kStop).bad_rows_allowed = 1;
  stopped.add({50}, EndPolicy::kDrop);
  for (int i = 0; i < 8; ++i) stopped.add({50}, EndPolicy::kDrop, 0);
  const std::string said = texts(stopped).front();
  EXPECT_NE(said.find("source source1: not asked, as source source0 ended the stream"),
            std::string::npos)
      << said;
  EXPECT_TRUE(said.ends_with("; and 2 more sources")) << said;
}

TEST(Selection, RefusesWhatCannotBe) {
  MadeUpJob job(12, 4);
  job.add({5}, EndPolicy::kDrop);
  const auto meta = job.post(1);
  const auto code_of = [&](const MadeUpJob& changed, const model::StreamState& state) {
    return select_step(changed.spec, changed.rows, state, meta).status().code();
  };
  const auto start = initial_state(job.spec);
  EXPECT_EQ(code_of(job, start), Code::kOk);
  MadeUpJob no_context = job, no_bins = job, substeps = job, align = job, empty = job;
  no_context.spec.context = 0;
  no_bins.spec.bins = 0;
  substeps.spec.substeps = 3;
  align.spec.align = 5;
  empty.rows[0] = 0;
  for (const MadeUpJob& wrong : {no_context, no_bins, substeps, align, empty}) {
    EXPECT_EQ(code_of(wrong, start), Code::kInvalidArgument);
  }
  auto ended = start;
  ended.ended = true;
  EXPECT_EQ(code_of(job, ended), Code::kOutOfRange);
  auto other = start;
  other.carried.push_back({{7, 0, 0}, 0, 5, 5, 0, {}, false});
  EXPECT_EQ(code_of(job, other), Code::kStateMismatch);
  other = start;
  other.cursors.resize(2);
  EXPECT_EQ(code_of(job, other), Code::kStateMismatch);
}

TEST(Selection, NeverChanges) {
  // Golden: what a step holds is a promise to everybody who resumes an old run.
  MadeUpJob job(64, 2);
  job.spec.seed = 7;
  job.spec.align = 2;
  job.add(text_lengths(1, 40, 60), EndPolicy::kRepeat, 2);
  job.add(text_lengths(2, 40, 90), EndPolicy::kRepeat, 1);
  EXPECT_EQ(texts(job, 3),
            (Texts{"| 0:3[0,44) 0:5[0,19)| 1:4[0,41) 1:0[0,18) 1:3[0,3)",
                   "| 0:25[0,25) 0:23[0,16) 1:1[0,11) 0:19[0,7) 0:0[0,1)| 0:7[0,12) 0:21[0,7) "
                   "0:2[0,5) 0:4[0,5) 0:9[0,6) 0:15[0,5) 0:18[0,5) 1:5[0,6) 0:10[0,4) 0:11[0,3)",
                   "| 1:7[0,64)+| 0:27[0,27) 1:6[0,17) 0:13[0,3) 0:24[0,3) 0:1[0,1) 1:2[0,1) "
                   "0:6[0,2) 0:8[0,1) 0:12[0,1)"}));
  job.spec.mixture.quota = model::Quota::kMultinomial;
  job.spec.mixture.unit = model::MixUnit::kSamples;
  EXPECT_EQ(texts(job, 2),
            (Texts{"| 0:3[0,44) 0:5[0,19)| 1:0[0,18) 0:7[0,12) 1:1[0,11) 0:2[0,5) 0:4[0,5) "
                   "0:9[0,6) 0:10[0,4)",
                   "| 1:7[0,64)+| 1:4[0,41) 1:6[0,17) 0:11[0,3)"}));
}

}  // namespace
}  // namespace overlord::plan
