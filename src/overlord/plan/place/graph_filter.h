// Graphs over part of a step's samples: those of one source, those with an image, any condition on
// tokens and metadata columns. A subgraph is the numbers of its samples in the whole graph: all
// subgraphs of a step share sample ids, costs and columns, and none copies them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/plan.h"
#include "overlord/plan/place/dgraph.h"

namespace overlord::plan {

enum class Comparison : uint8_t { kLess, kAtMost, kEqual, kUnequal, kAtLeast, kGreater };

// "<", "<=", "=", "!=", ">=", ">".
Result<Comparison> comparison_of(std::string_view text);

struct SampleCondition {
  std::string column;  // "tokens" or a metadata column
  Comparison comparison = Comparison::kGreater;
  int64_t value = 0;
};

// All of it must hold.
struct SampleFilter {
  std::optional<SourceIndex> source;
  std::vector<SampleCondition> conditions;
};

// Lives no longer than its graph.
class SubGraph {
 public:
  SubGraph(const DGraph* graph, std::vector<uint32_t> samples);

  const DGraph& graph() const { return *graph_; }
  std::span<const uint32_t> samples() const { return samples_; }  // ascending
  bool contains(uint32_t sample) const;
  // Edges on the way of its samples: into their bins, and what became of those bins.
  std::vector<Edge> edges() const;

 private:
  const DGraph* graph_;
  std::vector<uint32_t> samples_;
};

// `segments`: of the graph, which gives them to its plan. A column that is not there is refused,
// naming those that are.
Result<SubGraph> filter_graph(const DGraph& graph, std::span<const model::Segment> segments,
                              const SampleFilter& filter);

}  // namespace overlord::plan
