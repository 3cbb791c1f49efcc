#include "overlord/plan/place/graph_filter.h"

#include <algorithm>
#include <utility>

#include "overlord/base/check.h"

namespace overlord::plan {
namespace {

bool holds(Comparison comparison, int64_t left, int64_t right) {
  switch (comparison) {
    case Comparison::kLess:
      return left < right;
    case Comparison::kAtMost:
      return left <= right;
    case Comparison::kEqual:
      return left == right;
    case Comparison::kUnequal:
      return left != right;
    case Comparison::kAtLeast:
      return left >= right;
    case Comparison::kGreater:
      return left > right;
  }
  return false;
}

// A condition with its column found; no column: tokens.
struct Bound {
  const model::MetaColumn* column = nullptr;
  const SampleCondition* condition = nullptr;
};

Result<Bound> bind(const DGraph& graph, const SampleCondition& condition) {
  Bound bound{nullptr, &condition};
  if (condition.column == "tokens") return bound;
  std::string known = "tokens";
  for (const model::MetaColumn& column : graph.columns()) {
    if (column.name == condition.column) bound.column = &column;
    known += ", " + column.name;
  }
  if (bound.column != nullptr) return bound;
  return invalid_argument("no sample has the column '" + condition.column + "'; there are " +
                          known);
}

}  // namespace

Result<Comparison> comparison_of(std::string_view text) {
  if (text == "<") return Comparison::kLess;
  if (text == "<=") return Comparison::kAtMost;
  if (text == "=") return Comparison::kEqual;
  if (text == "!=") return Comparison::kUnequal;
  if (text == ">=") return Comparison::kAtLeast;
  if (text == ">") return Comparison::kGreater;
  return invalid_argument("'" + std::string(text) + "' is no comparison; allowed: < <= = != >= >");
}

SubGraph::SubGraph(const DGraph* graph, std::vector<uint32_t> samples)
    : graph_(graph), samples_(std::move(samples)) {
  OVERLORD_CHECK(samples_.empty() || samples_.back() < graph->samples(), "samples of the graph");
  OVERLORD_CHECK(std::is_sorted(samples_.begin(), samples_.end()),
                 "samples are searched by halves");
}

bool SubGraph::contains(uint32_t sample) const {
  return std::binary_search(samples_.begin(), samples_.end(), sample);
}

std::vector<Edge> SubGraph::edges() const {
  const uint32_t first_bin = graph_->bin_node(0);
  std::vector<bool> reached(graph_->bins(), false);
  std::vector<Edge> out;
  for (const Edge& edge : graph_->edges()) {  // samples are packed before their bins move
    const NodeKind kind = graph_->kind_of(edge.from);
    if (kind == NodeKind::kSample && contains(edge.from)) {
      OVERLORD_CHECK(edge.to >= first_bin && edge.to - first_bin < reached.size(),
                     "a sample is packed into a bin");
      reached[edge.to - first_bin] = true;
    } else if (kind != NodeKind::kBin || !reached[edge.from - first_bin]) {
      continue;
    }
    out.push_back(edge);
  }
  return out;
}

Result<SubGraph> filter_graph(const DGraph& graph, std::span<const model::Segment> segments,
                              const SampleFilter& filter) {
  OVERLORD_CHECK(segments.size() == graph.samples(), "the segments of the graph");
  std::vector<Bound> bounds;
  for (const SampleCondition& condition : filter.conditions) {
    OVERLORD_TRY(bounds.emplace_back(), bind(graph, condition));
  }
  std::vector<uint32_t> samples;
  for (uint32_t i = 0; i < segments.size(); ++i) {
    if (filter.source && segments[i].id.source != *filter.source) continue;
    const bool all = std::all_of(bounds.begin(), bounds.end(), [&](const Bound& bound) {
      const int64_t value = bound.column ? bound.column->values[i] : int64_t{segments[i].count};
      return holds(bound.condition->comparison, value, bound.condition->value);
    });
    if (all) samples.push_back(i);
  }
  return SubGraph(&graph, std::move(samples));
}

}  // namespace overlord::plan
