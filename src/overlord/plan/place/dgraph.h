// DGraph: what became of every sample of a step, as a graph over metadata. Nodes are samples (the
// segments of a layer), bins, microbatches and consumers; an edge says which primitive put a node
// into which, and is only ever appended. A layer of a plan is read out of the edges: there is no
// other way from samples to a plan, so what explains a plan is what made it.
//
// Struct of arrays, dense numbers: node ids are samples, then bins, then microbatches by consumer,
// then consumers. Samples and bins have costs; a microbatch costs what its bins do.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/plan.h"
#include "overlord/model/sample_meta.h"

namespace overlord::plan {

enum class NodeKind : uint8_t { kSample, kBin, kMicrobatch, kConsumer };
// The primitive behind an edge: packing, the deal in arrival order, balancing, ordering of
// microbatches, the axis that microbatches are dealt over, and a user's own function.
enum class EdgeOp : uint8_t { kPack, kDeal, kBalance, kOrder, kDistribute, kUser };

struct Edge {
  uint32_t from = 0;
  uint32_t to = 0;
  EdgeOp op = EdgeOp::kPack;
};

struct GraphShape {
  uint32_t consumers = 1;
  uint32_t microbatches = 1;     // of each consumer
  uint32_t microbatch_size = 1;  // most bins of a microbatch
};

class DGraph {
 public:
  // Takes the samples of a step and the bins they were packed into.
  DGraph(std::vector<model::Segment> segments, std::vector<uint32_t> bin_ends, GraphShape shape);

  uint32_t samples() const { return samples_; }
  uint32_t bins() const { return bins_; }
  const GraphShape& shape() const { return shape_; }
  std::span<const model::Segment> segments() const { return segments_; }
  std::span<const uint32_t> bin_ends() const { return bin_ends_; }
  std::span<const Edge> edges() const { return edges_; }

  uint32_t bin_node(uint32_t bin) const { return samples() + bin; }
  uint32_t microbatch_node(uint32_t consumer, uint32_t microbatch) const {
    return samples() + bins() + consumer * shape_.microbatches + microbatch;
  }
  uint32_t consumer_node(uint32_t consumer) const {
    return samples() + bins() + shape_.consumers * shape_.microbatches + consumer;
  }
  NodeKind kind_of(uint32_t node) const;

  // Metadata columns of the samples, by name; "tokens" is always there and is not stored twice.
  void set_columns(std::vector<model::MetaColumn> columns) { columns_ = std::move(columns); }
  std::span<const model::MetaColumn> columns() const { return columns_; }

  // The graph of an encoder over the same samples, with owners of its own; null without one.
  void set_encoder(std::shared_ptr<const DGraph> encoder) { encoder_ = std::move(encoder); }
  const DGraph* encoder() const { return encoder_.get(); }

  void set_costs(std::vector<int64_t> sample_costs, std::vector<int64_t> bin_costs);
  std::span<const int64_t> sample_costs() const { return sample_costs_; }
  std::span<const int64_t> bin_costs() const { return bin_costs_; }

  // Puts a bin into a microbatch; a later call moves it.
  void put(uint32_t bin, uint32_t consumer, uint32_t microbatch, EdgeOp op);
  // Renumbers microbatches within their consumers: `to[consumer * microbatches + m]` is the new
  // number of microbatch m.
  void renumber(std::span<const uint32_t> to);

  uint32_t consumer_of(uint32_t bin) const { return seats_[bin] / shape_.microbatches; }
  uint32_t microbatch_of(uint32_t bin) const { return seats_[bin] % shape_.microbatches; }
  uint32_t seat_of(uint32_t bin) const { return seats_[bin]; }  // consumer * microbatches + own
  // Cost of every microbatch as the bins lie now, by consumer * microbatches + microbatch.
  std::vector<int64_t> microbatch_costs() const;

  // Where every bin is, read out of the edges. Fails (a broken strategy) when a bin is nowhere or a
  // microbatch holds more than its size.
  Result<std::vector<model::Placement>> read_placements() const;
  // Gives segments and bins back for the plan's layer; nodes and edges stay.
  void release(std::vector<model::Segment>* segments, std::vector<uint32_t>* bin_ends);

 private:
  uint32_t samples_;
  uint32_t bins_;
  std::vector<model::Segment> segments_;
  std::vector<uint32_t> bin_ends_;
  GraphShape shape_;
  std::vector<model::MetaColumn> columns_;
  std::vector<int64_t> sample_costs_;
  std::vector<int64_t> bin_costs_;
  std::vector<Edge> edges_;
  std::shared_ptr<const DGraph> encoder_;
  std::vector<uint32_t> seats_;  // by bin: consumer * microbatches + microbatch, as of now
};

}  // namespace overlord::plan
