// Metadata columns on their way through selection and placement: conserved, carried, moved along.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "overlord/plan/cost/cost.h"
#include "overlord/plan/made_up_cost_test.h"
#include "overlord/plan/place/made_up_job_test.h"
#include "overlord/plan/place/placement.h"
#include "overlord/plan/select/step_selector.h"

namespace overlord::plan {
namespace {

// Two sources, of which only the first has images; one document in eight is longer than a bin.
MadeUpJob job_of(uint64_t seed, model::Packing packing) {
  MadeUpJob job(128, 8);
  job.spec.packing.method = packing;
  job.spec.packing.max_delay_steps = 3;
  job.add(text_lengths(seed, 300, 200), model::EndPolicy::kDrop);
  job.add(text_lengths(seed + 1, 200, 100), model::EndPolicy::kDrop);
  job.spec.columns = {"image_patches", "quality"};
  for (size_t s = 0; s < 2; ++s) {
    model::MetaColumn patches{"image_patches", {}}, quality{"quality", {}};
    for (uint64_t row = 0; row < job.rows[s]; ++row) {
      patches.values.push_back(static_cast<int64_t>(uniform_below(seed, row, 7, 1000)));
      quality.values.push_back(static_cast<int64_t>(uniform_below(seed, row, 8, 5)));
    }
    if (s == 0) job.sources[s].columns.push_back(std::move(patches));
    job.sources[s].columns.push_back(std::move(quality));
  }
  return job;
}

int64_t value_of(const MadeUpJob& job, size_t column, const model::Segment& segment) {
  if (segment.first > 0) return 0;
  for (const model::MetaColumn& own : job.sources[segment.id.source].columns) {
    if (own.name == job.spec.columns[column]) return own.values[segment.id.position];
  }
  return 0;
}

void expect_right_columns(const MadeUpJob& job, const StepContent& step) {
  ASSERT_EQ(step.columns.size(), job.spec.columns.size());
  for (size_t c = 0; c < step.columns.size(); ++c) {
    EXPECT_EQ(step.columns[c].name, job.spec.columns[c]);
    ASSERT_EQ(step.columns[c].values.size(), step.segments.size());
    for (size_t i = 0; i < step.segments.size(); ++i) {
      EXPECT_EQ(step.columns[c].values[i], value_of(job, c, step.segments[i]));
    }
  }
}

TEST(Columns, EverySegmentHasItsDocumentsValuesOnce) {
  for (const auto packing :
       {model::Packing::kBestFit, model::Packing::kConcat, model::Packing::kPad}) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const MadeUpJob job = job_of(seed, packing);
      const auto steps = run_steps(job, 1000);
      ASSERT_TRUE(steps.ok()) << steps.status().message();
      int64_t patches = 0;
      bool carried = false, cut = false;
      for (const MadeUpStep& step : *steps) {
        expect_right_columns(job, step.content);
        const auto& values = step.content.columns[0].values;
        patches = std::accumulate(values.begin(), values.end(), patches);
        for (const model::Carried& item : step.after.carried) {
          ASSERT_EQ(item.columns.size(), 2u);
          carried = carried || item.columns[0] > 0;
        }
        for (const model::Segment& segment : step.content.segments) cut = cut || segment.first > 0;
      }
      const auto& all = job.sources[0].columns[0].values;
      EXPECT_EQ(patches, std::accumulate(all.begin(), all.end(), int64_t{0}));
      EXPECT_TRUE(cut);
      EXPECT_EQ(carried, packing == model::Packing::kBestFit);
    }
  }
}

TEST(Columns, AStateOfOtherColumnsIsRefused) {
  const MadeUpJob job = job_of(1, model::Packing::kBestFit);
  const auto steps = run_steps(job, 1);
  ASSERT_TRUE(steps.ok());
  model::StreamState state = steps->front().after;
  ASSERT_FALSE(state.carried.empty());
  state.carried.front().columns.pop_back();
  const auto refused = select_step(job.spec, job.rows, state, job.post(1));
  EXPECT_EQ(refused.status().code(), Code::kStateMismatch);
}

// Predicted time of a step of eight consumers whose bins cost their patches.
int64_t step_time(const StepContent& step) {
  int64_t sum = 0, largest = 0;
  uint32_t i = 0;
  for (const uint32_t end : step.bin_ends) {
    int64_t bin = 0;
    for (; i < end; ++i) bin += step.columns[0].values[i];
    sum += bin;
    largest = std::max(largest, bin);
  }
  return std::max((sum + 7) / 8, largest);
}

TEST(Columns, AWindowMovesThemWithTheirBinsAndBalancesByThem) {
  MadeUpJob job = job_of(3, model::Packing::kBestFit);
  job.spec.window = {4, 3, 8, tokens_cost("image_patches")};
  const auto plain = run_steps(job, 1000);
  ASSERT_TRUE(plain.ok());
  const auto meta = job.post(1);
  StepSelector selector;
  model::StreamState state = initial_state(job.spec);
  int64_t moved = 0, still = 0;
  while (!state.ended) {
    const auto selection = selector.step(job.spec, job.rows, state, meta);
    ASSERT_TRUE(selection.ok()) << selection.status().message();
    ASSERT_TRUE(selection->content);
    expect_right_columns(job, *selection->content);
    moved += step_time(*selection->content);
    still += step_time((*plain)[state.next_step].content);
    state = selection->after;
  }
  EXPECT_LT(moved, still);
}

int64_t fullest(const DGraph& graph, std::span<const int64_t> values) {
  std::vector<int64_t> loads(graph.shape().consumers, 0);
  uint32_t sample = 0;
  for (uint32_t bin = 0; bin < graph.bins(); ++bin) {
    for (; sample < graph.bin_ends()[bin]; ++sample)
      loads[graph.consumer_of(bin)] += values[sample];
  }
  return *std::max_element(loads.begin(), loads.end());
}

TEST(Columns, AStrategyBalancesWhatItsCostNames) {
  MadeUpJob job = job_of(5, model::Packing::kBestFit);
  const auto steps = run_steps(job, 1);
  ASSERT_TRUE(steps.ok());
  const StepContent& step = steps->front().content;
  model::Strategy strategy;
  strategy.has_cost = true;
  strategy.balance = model::BalanceMethod::kLptSearch;
  std::map<std::string, int64_t> most;
  for (const std::string column : {"tokens", "image_patches"}) {
    strategy.cost = tokens_cost(column);
    DGraph graph(step.segments, step.bin_ends, {4, 2, 1});
    graph.set_columns(step.columns);
    ASSERT_TRUE(Placer().place(strategy, {1, 1}, &graph).ok());
    most[column] = fullest(graph, step.columns[0].values);
    if (column != "tokens") {
      for (uint32_t i = 0; i < graph.samples(); ++i) {
        EXPECT_EQ(graph.sample_costs()[i], step.columns[0].values[i]);
      }
    }
  }
  EXPECT_LT(most["image_patches"], most["tokens"]);
}

TEST(Columns, SamplesDealtOneByOneKeepTheirValues) {
  MadeUpJob job = job_of(6, model::Packing::kBestFit);
  const auto steps = run_steps(job, 1);
  ASSERT_TRUE(steps.ok());
  const StepContent& step = steps->front().content;
  model::Strategy strategy;
  strategy.has_cost = true;
  strategy.balance = model::BalanceMethod::kLptSearch;
  strategy.atoms = model::Atoms::kSamples;
  const std::vector<model::CostModel> parts{tokens_cost("tokens"), tokens_cost("image_patches")};
  strategy.cost = sum_cost(parts);
  std::vector<uint32_t> capacities;
  const auto costs = segment_costs(strategy.cost, step.segments, step.columns);
  ASSERT_TRUE(costs.ok());
  const auto graph =
      Placer().place_samples(strategy, {1, 1}, {4, 2, 1, 128, 1, 1, 1}, step.segments, *costs,
                             step.bin_ends, step.columns, &capacities);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_EQ((*graph)->columns().size(), 2u);
  for (uint32_t i = 0; i < (*graph)->samples(); ++i) {
    const model::Segment& segment = (*graph)->segments()[i];
    EXPECT_EQ((*graph)->columns()[0].values[i], value_of(job, 0, segment));
    EXPECT_EQ((*graph)->columns()[1].values[i], value_of(job, 1, segment));
    EXPECT_EQ((*graph)->sample_costs()[i], segment.count + value_of(job, 0, segment));
  }
}

TEST(Columns, RowsOfOtherPartsAreUsedUpButNotDrawnNorBad) {
  MadeUpJob job(64, 4);
  std::vector<uint32_t> lengths(90, 7);
  for (size_t row = 0; row < lengths.size(); ++row) {
    if (row % 3 != 0) lengths[row] = model::kPassedOver;
  }
  job.add(lengths, model::EndPolicy::kDrop);
  const auto steps = run_steps(job, 100);
  ASSERT_TRUE(steps.ok()) << steps.status().message();
  const model::SourceCursor& cursor = steps->back().after.cursors[0];
  EXPECT_EQ(cursor.position, 90u);
  EXPECT_EQ(cursor.samples, 30u);
  EXPECT_EQ(cursor.bad, 0u);
  EXPECT_EQ(cursor.dropped, 0u);
  for (const MadeUpStep& step : *steps) {
    for (const model::Segment& segment : step.content.segments) {
      EXPECT_EQ(segment.id.position % 3, 0u);
    }
  }
}

TEST(Columns, APartWithoutRowsIsRefusedWhereItRepeats) {
  MadeUpJob job(64, 4);
  job.add(std::vector<uint32_t>(20, model::kPassedOver), model::EndPolicy::kRepeat);
  const auto steps = run_steps(job, 3, 3);
  ASSERT_FALSE(steps.ok());
  EXPECT_NE(steps.status().message().find("holds no document"), std::string::npos);
}

}  // namespace
}  // namespace overlord::plan
