#include "overlord/plan/place/dgraph.h"

#include <string>
#include <utility>

#include "overlord/base/check.h"

namespace overlord::plan {
namespace {

constexpr uint32_t kNowhere = 0xffffffffu;

}  // namespace

DGraph::DGraph(std::vector<model::Segment> segments, std::vector<uint32_t> bin_ends,
               GraphShape shape)
    : samples_(static_cast<uint32_t>(segments.size())),
      bins_(static_cast<uint32_t>(bin_ends.size())),
      segments_(std::move(segments)),
      bin_ends_(std::move(bin_ends)),
      shape_(shape) {
  OVERLORD_CHECK((bin_ends_.empty() ? 0 : bin_ends_.back()) == segments_.size(),
                 "every sample is in a bin");
  seats_.assign(bin_ends_.size(), kNowhere);
  edges_.reserve(segments_.size() + bin_ends_.size() +
                 size_t{shape_.consumers} * shape_.microbatches);
  uint32_t sample = 0;
  for (uint32_t bin = 0; bin < bin_ends_.size(); ++bin) {
    OVERLORD_CHECK(sample <= bin_ends_[bin], "bins follow each other");
    for (; sample < bin_ends_[bin]; ++sample) {
      edges_.push_back({sample, bin_node(bin), EdgeOp::kPack});
    }
  }
}

NodeKind DGraph::kind_of(uint32_t node) const {
  OVERLORD_CHECK(node < consumer_node(shape_.consumers), "a node of the graph");
  if (node < samples()) return NodeKind::kSample;
  if (node < microbatch_node(0, 0)) return NodeKind::kBin;
  return node < consumer_node(0) ? NodeKind::kMicrobatch : NodeKind::kConsumer;
}

void DGraph::set_costs(std::vector<int64_t> sample_costs, std::vector<int64_t> bin_costs) {
  OVERLORD_CHECK(sample_costs.size() == samples_ && bin_costs.size() == bins_, "one cost each");
  sample_costs_ = std::move(sample_costs);
  bin_costs_ = std::move(bin_costs);
}

void DGraph::put(uint32_t bin, uint32_t consumer, uint32_t microbatch, EdgeOp op) {
  OVERLORD_CHECK(bin < bins_ && consumer < shape_.consumers && microbatch < shape_.microbatches,
                 "a bin has a seat of the graph");
  edges_.push_back({bin_node(bin), microbatch_node(consumer, microbatch), op});
  seats_[bin] = consumer * shape_.microbatches + microbatch;
}

void DGraph::renumber(std::span<const uint32_t> to) {
  OVERLORD_CHECK(to.size() == size_t{shape_.consumers} * shape_.microbatches,
                 "a number for every seat");
  for (uint32_t bin = 0; bin < seats_.size(); ++bin) {
    const uint32_t seat = seats_[bin];
    OVERLORD_CHECK(seat < to.size(), "bins are placed before they are ordered");
    const uint32_t microbatch = seat % shape_.microbatches;
    if (to[seat] == microbatch) continue;
    put(bin, seat / shape_.microbatches, to[seat], EdgeOp::kOrder);
  }
}

std::vector<int64_t> DGraph::microbatch_costs() const {
  OVERLORD_CHECK(bin_costs_.size() == seats_.size(), "a cost for every bin");
  std::vector<int64_t> costs(size_t{shape_.consumers} * shape_.microbatches, 0);
  for (uint32_t bin = 0; bin < seats_.size(); ++bin) {
    if (seats_[bin] != kNowhere) costs[seats_[bin]] += bin_costs_[bin];
  }
  return costs;
}

Result<std::vector<model::Placement>> DGraph::read_placements() const {
  std::vector<uint32_t> seats(bins_, kNowhere);
  const uint32_t first_bin = bin_node(0);
  const uint32_t first_seat = microbatch_node(0, 0);
  for (const Edge& edge : edges_) {  // the newest edge of a bin holds
    if (kind_of(edge.from) == NodeKind::kBin) seats[edge.from - first_bin] = edge.to - first_seat;
  }
  std::vector<uint32_t> used(size_t{shape_.consumers} * shape_.microbatches, 0);
  std::vector<model::Placement> placements(seats.size());
  for (uint32_t bin = 0; bin < seats.size(); ++bin) {
    if (seats[bin] == kNowhere) {
      return Status(Code::kInternal, "bin " + std::to_string(bin) + " was placed nowhere");
    }
    OVERLORD_CHECK(seats[bin] == seats_[bin], "edges tell where bins are");
    const uint32_t slot = used[seats[bin]]++;
    if (slot >= shape_.microbatch_size) {
      return Status(Code::kInternal, "a microbatch got more bins than its size of " +
                                         std::to_string(shape_.microbatch_size));
    }
    placements[bin] = {seats[bin] / shape_.microbatches, seats[bin] % shape_.microbatches, slot};
  }
  return placements;
}

void DGraph::release(std::vector<model::Segment>* segments, std::vector<uint32_t>* bin_ends) {
  OVERLORD_CHECK(segments_.size() == samples_, "segments are given back once");
  *segments = std::move(segments_);
  *bin_ends = std::move(bin_ends_);
}

}  // namespace overlord::plan
