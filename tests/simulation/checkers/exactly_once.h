// What arrives is what the files hold: every document of a pass once, whole, its tokens in order,
// targets shifted, weights right. Read from what the ranks got, and from nothing of ours.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "overlord/plan/place/place_tree.h"
#include "overlord/plan/select/source_order.h"
#include "overlord/sim/scenario.h"
#include "simulation/checkers/breach.h"

namespace overlord::sim::checkers {

// Row of the source behind a sample id.
inline uint64_t row_of(const host::OpenJob& job, const SampleId& id) {
  const loader::OpenSource& source = *job.sources[id.source];
  const plan::SourceOrder order =
      plan::make_order(source.spec, source.manifest, source.seed, id.pass);
  const uint64_t window = order.window_of(id.position);
  std::vector<plan::RowRef> rows;
  order.expand(window, &rows);
  const plan::RowRef ref = rows[id.position - order.window(window).first_position];
  return source.manifest.blocks[ref.block].first_row + ref.row;
}

// One whole (unsliced, all fields) microbatch against the generator.
inline Breach right_batch(const Scenario& scenario, const host::OpenJob& job,
                          const model::Microbatch& batch) {
  const model::MicrobatchCore& core = *batch.core;
  const auto* tokens = static_cast<const int32_t*>(batch.slab->tokens.data);
  const auto* targets = static_cast<const int32_t*>(batch.slab->targets.data);
  const auto* weights = static_cast<const float*>(batch.slab->loss_weights.data);
  const auto* positions = static_cast<const int32_t*>(batch.slab->positions.data);
  uint64_t weighted = 0;
  std::vector<bool> covered(batch.slab->rows * batch.slab->columns, false);
  size_t document = 0;
  for (const model::LineageRow& line : core.lineage) {
    while (core.boundaries.cu_seqlens[document] == core.boundaries.cu_seqlens[document + 1]) {
      ++document;  // empty bins
    }
    const int32_t at = core.boundaries.cu_seqlens_padded[document++];
    const std::vector<int64_t> whole = scenario.document(line.id.source, row_of(job, line.id));
    for (uint32_t i = 0; i < line.count; ++i) {
      covered[at + i] = true;
      const bool has_next = line.first + i + 1 < whole.size() &&
                            (i + 1 < line.count || (line.flags & model::Segment::kContinues));
      weighted += has_next ? 1 : 0;
      if (tokens[at + i] != whole[line.first + i]) return "a token is not that of its row";
      if (positions[at + i] != static_cast<int32_t>(i)) return "a position is wrong";
      if (weights[at + i] != (has_next ? 1.0f : 0.0f)) return "a weight is wrong";
      if (has_next && targets[at + i] != whole[line.first + i + 1]) return "a target is wrong";
    }
  }
  if (weighted != core.boundaries.target_tokens) return "targets are counted wrong";
  for (size_t i = 0; i < covered.size(); ++i) {
    if (covered[i]) continue;
    if (tokens[i] != static_cast<int32_t>(scenario.spec.pad_token)) return "padding is no padding";
    if (weights[i] != 0.0f) return "padding carries loss";
  }
  return std::nullopt;
}

inline Breach right_batches(SimCluster& cluster, const Scenario& scenario,
                            const host::OpenJob& job) {
  for (const Rank rank : cluster.ranks()) {
    for (const model::MicrobatchPtr& batch : cluster.delivered(rank).batches) {
      if (Breach breach = right_batch(scenario, job, *batch)) return breach;
    }
  }
  return std::nullopt;
}

using Part = std::tuple<SampleId, uint32_t, uint32_t>;  // id, first, count

// All segments of a run, over the data-parallel groups (first rank of each).
inline std::vector<Part> parts_of(SimCluster& cluster, const host::OpenJob& job) {
  std::vector<Part> parts;
  std::set<uint32_t> seen;
  const auto views = plan::make_views(job.mesh, job.delivery, 1, job.spec.strategy);
  for (const Rank rank : cluster.ranks()) {
    if (!seen.insert(views->by_rank[rank].bucket).second) continue;
    for (const model::MicrobatchPtr& batch : cluster.delivered(rank).batches) {
      for (const model::LineageRow& line : batch->core->lineage) {
        parts.emplace_back(line.id, line.first, line.count);
      }
    }
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

// Every document of every finished pass, whole, once: its parts join without gap or overlap.
inline Breach exactly_once(SimCluster& cluster, const Scenario& scenario, const host::OpenJob& job,
                           const std::vector<uint32_t>& passes) {
  std::map<SampleId, uint32_t> reached;
  for (const auto& [id, first, count] : parts_of(cluster, job)) {
    if (reached[id] != first) return "gap or repeat in source " + std::to_string(id.source);
    reached[id] = first + count;
  }
  for (SourceIndex s = 0; s < passes.size(); ++s) {
    for (uint32_t pass = 0; pass < passes[s]; ++pass) {
      std::set<uint64_t> rows;
      for (uint64_t p = 0; p < job.sources[s]->manifest.rows; ++p) {
        const SampleId id{s, pass, p};
        const uint64_t row = row_of(job, id);
        rows.insert(row);
        if (reached[id] == scenario.document(s, row).size()) continue;
        return "not whole: source " + std::to_string(s) + " pass " + std::to_string(pass) +
               " position " + std::to_string(p);
      }
      if (rows.size() != job.sources[s]->manifest.rows) return "a row stands twice in a pass";
    }
  }
  return std::nullopt;
}

}  // namespace overlord::sim::checkers
