// What arrives is what the files hold: every document of a pass once, its tokens in order, targets
// shifted, weights right; the ranks' views together are the step, exactly once.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "overlord/plan/place/place_tree.h"
#include "overlord/plan/select/source_order.h"
#include "overlord/sim/scenario.h"

namespace overlord::sim {
namespace exactly_once_test {

using model::LineageRow;

// Row of the source behind a sample id.
uint64_t row_of(const host::OpenJob& job, const SampleId& id) {
  const loader::OpenSource& source = *job.sources[id.source];
  const plan::SourceOrder order =
      plan::make_order(source.spec, source.manifest, source.seed, id.pass);
  const uint64_t window = order.window_of(id.position);
  std::vector<plan::RowRef> rows;
  order.expand(window, &rows);
  const plan::RowRef ref = rows[id.position - order.window(window).first_position];
  return source.manifest.blocks[ref.block].first_row + ref.row;
}

// Checks one whole (unsliced, all fields) microbatch against the generator.
void check_batch(const Scenario& scenario, const host::OpenJob& job,
                 const model::Microbatch& batch) {
  const model::MicrobatchCore& core = *batch.core;
  const auto* tokens = static_cast<const int32_t*>(batch.slab->tokens.data);
  const auto* targets = static_cast<const int32_t*>(batch.slab->targets.data);
  const auto* weights = static_cast<const float*>(batch.slab->loss_weights.data);
  const auto* positions = static_cast<const int32_t*>(batch.slab->positions.data);
  uint64_t weighted = 0;
  std::vector<bool> covered(batch.slab->rows * batch.slab->columns, false);
  size_t document = 0;
  for (const LineageRow& line : core.lineage) {
    while (core.boundaries.cu_seqlens[document] == core.boundaries.cu_seqlens[document + 1]) {
      ++document;  // empty bins
    }
    const int32_t at = core.boundaries.cu_seqlens_padded[document++];
    const std::vector<int64_t> whole = scenario.document(line.id.source, row_of(job, line.id));
    for (uint32_t i = 0; i < line.count; ++i) {
      covered[at + i] = true;
      ASSERT_EQ(tokens[at + i], whole[line.first + i]);
      ASSERT_EQ(positions[at + i], static_cast<int32_t>(i));
      const bool has_next = line.first + i + 1 < whole.size() &&
                            (i + 1 < line.count || (line.flags & model::Segment::kContinues));
      ASSERT_EQ(weights[at + i], has_next ? 1.0f : 0.0f);
      if (has_next) {
        ASSERT_EQ(targets[at + i], whole[line.first + i + 1]);
      }
      weighted += has_next ? 1 : 0;
    }
  }
  EXPECT_EQ(weighted, core.boundaries.target_tokens);
  for (size_t i = 0; i < covered.size(); ++i) {
    if (covered[i]) continue;
    ASSERT_EQ(tokens[i], static_cast<int32_t>(scenario.spec.pad_token));
    ASSERT_EQ(weights[i], 0.0f);
  }
}

using Part = std::tuple<SampleId, uint32_t, uint32_t>;  // id, first, count

// All segments of a run, over the data-parallel groups (first rank of each).
std::vector<Part> parts_of(SimCluster& cluster, const host::OpenJob& job) {
  std::vector<Part> parts;
  std::set<uint32_t> seen;
  const auto views = plan::make_views(job.mesh, job.delivery, 1, job.spec.strategy);
  for (const Rank rank : cluster.ranks()) {
    if (!seen.insert(views->by_rank[rank].bucket).second) continue;
    for (const model::MicrobatchPtr& batch : cluster.delivered(rank).batches) {
      for (const LineageRow& line : batch->core->lineage) {
        parts.emplace_back(line.id, line.first, line.count);
      }
    }
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

// Every document of every finished pass, whole, once: its parts join without gap or overlap.
void check_coverage(const Scenario& scenario, const host::OpenJob& job,
                    const std::vector<Part>& parts, const std::vector<uint32_t>& passes) {
  std::map<SampleId, uint32_t> reached;
  for (const auto& [id, first, count] : parts) {
    ASSERT_EQ(reached[id], first) << "gap or repeat in source " << id.source;
    reached[id] = first + count;
  }
  for (SourceIndex s = 0; s < passes.size(); ++s) {
    for (uint32_t pass = 0; pass < passes[s]; ++pass) {
      std::set<uint64_t> rows;
      for (uint64_t p = 0; p < job.sources[s]->manifest.rows; ++p) {
        const SampleId id{s, pass, p};
        const uint64_t row = row_of(job, id);
        rows.insert(row);
        ASSERT_EQ(reached[id], scenario.document(s, row).size())
            << "source " << s << " pass " << pass << " position " << p;
      }
      EXPECT_EQ(rows.size(), job.sources[s]->manifest.rows);
    }
  }
}

Scenario until_dry(model::Packing packing) {
  Scenario scenario = Scenario::small();
  scenario.spec.packing.method = packing;
  for (model::Source& source : scenario.spec.sources) source.at_end = model::EndPolicy::kDrop;
  return scenario;
}

class ExactlyOncePacking : public ::testing::TestWithParam<model::Packing> {};

TEST_P(ExactlyOncePacking, DeliversEveryDocumentOnce) {
  const Scenario scenario = until_dry(GetParam());
  const auto job = scenario.open();
  auto cluster = scenario.start(1);
  ASSERT_TRUE(cluster->run(100'000));
  ASSERT_TRUE(cluster->consumer(0).ended());
  for (const Rank rank : cluster->ranks()) {
    for (const auto& batch : cluster->delivered(rank).batches) check_batch(scenario, *job, *batch);
  }
  check_coverage(scenario, *job, parts_of(*cluster, *job), {1, 1, 1});
}

INSTANTIATE_TEST_SUITE_P(Packing, ExactlyOncePacking,
                         ::testing::Values(model::Packing::kBestFit, model::Packing::kConcat,
                                           model::Packing::kPad));

TEST(ExactlyOnce, HoldsOverSeveralPasses) {
  Scenario scenario = Scenario::small();
  scenario.spec.max_steps = 40;
  const auto job = scenario.open();
  auto cluster = scenario.start(2);
  ASSERT_TRUE(cluster->run(100'000));
  const auto& cursors = cluster->consumer(0).state().state.cursors;
  ASSERT_GT(cursors[0].pass, 1u);
  // What the last step could not place is counted, not served: look at earlier passes only.
  check_coverage(scenario, *job, parts_of(*cluster, *job),
                 {cursors[0].pass - 1, cursors[1].pass > 0 ? cursors[1].pass - 1 : 0, 0});
}

TEST(ExactlyOnce, AllRanksEndOnTheSameStep) {
  Scenario scenario = until_dry(model::Packing::kBestFit);
  scenario.axes = {{"pp", 2}, {"dp", 2}, {"cp", 2}, {"tp", 1}};
  scenario.delivery.broadcast_axes = {"tp"};
  auto cluster = scenario.start(3);
  ASSERT_TRUE(cluster->run(100'000));
  const size_t batches = cluster->delivered(0).batches.size();
  for (const Rank rank : cluster->ranks()) {
    EXPECT_TRUE(cluster->consumer(rank).ended());
    EXPECT_EQ(cluster->delivered(rank).batches.size(), batches);
  }
}

// Slices of the context-parallel peers put together are the whole microbatch.
TEST(Views, SlicesOfAllPeersAreTheMicrobatchExactlyOnce) {
  for (const model::Slicing slicing : {model::Slicing::kSequenceZigzag, model::Slicing::kContiguous,
                                       model::Slicing::kDocumentZigzag}) {
    Scenario scenario = Scenario::small();
    scenario.spec.align = 4;
    scenario.delivery.slicing = slicing;
    scenario.delivery.microbatch_size = 2;
    scenario.axes = {{"dp", 2}, {"cp", 2}};
    auto sliced = scenario.start(4);
    ASSERT_TRUE(sliced->run(3));
    scenario.axes = {{"dp", 2}, {"cp", 1}};
    auto whole = scenario.start(5);
    ASSERT_TRUE(whole->run(3));
    for (size_t i = 0; i < whole->delivered(0).batches.size(); ++i) {
      const model::Slab& all = *whole->delivered(0).batches[i]->slab;
      std::multiset<int32_t> expected, got;
      const auto* values = static_cast<const int32_t*>(all.tokens.data);
      expected.insert(values, values + all.rows * all.columns);
      for (const Rank rank : {0u, 1u}) {
        const model::Slab& part = *sliced->delivered(rank).batches[i]->slab;
        EXPECT_EQ(part.columns, all.columns / 2);
        const auto* slice = static_cast<const int32_t*>(part.tokens.data);
        got.insert(slice, slice + part.rows * part.columns);
      }
      EXPECT_EQ(got, expected);
    }
  }
}

TEST(Views, PeersOfATensorGroupShareTheSameMemory) {
  Scenario scenario = Scenario::small();
  scenario.axes = {{"dp", 1}, {"tp", 3}};
  auto cluster = scenario.start(6);
  ASSERT_TRUE(cluster->run(1));
  const auto* first = cluster->delivered(0).batches[0]->slab.get();
  EXPECT_EQ(cluster->delivered(1).batches[0]->slab.get(), first);
  EXPECT_EQ(cluster->delivered(2).batches[0]->slab.get(), first);
}

}  // namespace exactly_once_test
}  // namespace overlord::sim
