#include "overlord/plan/place/memory_limit.h"

#include <string>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"
#include "overlord/plan/cost/cost.h"

namespace overlord::plan {
namespace {

Result<std::vector<int64_t>> sample_bytes(const model::CostModel& cost, const DGraph& graph) {
  std::vector<int64_t> tokens;
  tokens.reserve(graph.samples());
  for (const model::Segment& segment : graph.segments()) tokens.push_back(segment.count);
  std::vector<LengthColumn> columns{{"tokens", tokens}};
  for (const model::MetaColumn& column : graph.columns()) {
    columns.push_back({column.name, column.values});
  }
  return evaluate_bytes(cost, columns);
}

uint32_t bin_begin(const DGraph& graph, uint32_t bin) {
  return bin == 0 ? 0 : graph.bin_ends()[bin - 1];
}

}  // namespace

Result<std::vector<int64_t>> bin_bytes(const model::CostModel& cost, const DGraph& graph) {
  OVERLORD_TRY(const std::vector<int64_t> samples, sample_bytes(cost, graph));
  std::vector<int64_t> out(graph.bins(), 0);
  Int128 all = 0;
  for (uint32_t bin = 0; bin < graph.bins(); ++bin) {
    for (uint32_t i = bin_begin(graph, bin); i < graph.bin_ends()[bin]; ++i) {
      all += samples[i];
      if (all >> 62 != 0) return invalid_argument("cost: the bytes of a step leave 62 bits");
      out[bin] += samples[i];
    }
  }
  return out;
}

LargestMicrobatch largest_microbatch(const std::vector<int64_t>& bytes, const DGraph& graph) {
  OVERLORD_CHECK(bytes.size() == graph.bins(), "bytes of every bin");
  const uint32_t microbatches = graph.shape().microbatches;
  std::vector<int64_t> sums(size_t{graph.shape().consumers} * microbatches, 0);
  for (uint32_t bin = 0; bin < graph.bins(); ++bin) sums[graph.seat_of(bin)] += bytes[bin];
  LargestMicrobatch out;
  for (uint32_t seat = 0; seat < sums.size(); ++seat) {
    if (sums[seat] > out.bytes) out = {seat / microbatches, seat % microbatches, sums[seat]};
  }
  return out;
}

Status over_memory(const model::Strategy& strategy, const std::vector<int64_t>& bytes,
                   const DGraph& graph) {
  const LargestMicrobatch largest = largest_microbatch(bytes, graph);
  const uint32_t seat = largest.consumer * graph.shape().microbatches + largest.microbatch;
  OVERLORD_TRY(const std::vector<int64_t> samples, sample_bytes(strategy.cost, graph));
  uint32_t heaviest = 0;
  int64_t most = -1;
  for (uint32_t bin = 0; bin < graph.bins(); ++bin) {
    if (graph.seat_of(bin) != seat) continue;
    for (uint32_t i = bin_begin(graph, bin); i < graph.bin_ends()[bin]; ++i) {
      if (samples[i] <= most) continue;
      most = samples[i];
      heaviest = i;
    }
  }
  OVERLORD_CHECK(most >= 0, "a microbatch that is too large holds a sample");
  const model::Segment& sample = graph.segments()[heaviest];
  return {Code::kInvalidArgument,
          "strategy.balance.memory_limit: no dealing of these sequences keeps to " +
              std::to_string(strategy.memory_limit) + " bytes a microbatch: microbatch " +
              std::to_string(largest.microbatch) + " of consumer " +
              std::to_string(largest.consumer) + " takes " + std::to_string(largest.bytes) +
              "; its heaviest sample is source " + std::to_string(sample.id.source) + ", pass " +
              std::to_string(sample.id.pass) + ", position " + std::to_string(sample.id.position) +
              " with " + std::to_string(most) +
              "; raise the limit, lower delivery.microbatch_size or context, or deal samples "
              "(atoms: samples)"};
}

}  // namespace overlord::plan
