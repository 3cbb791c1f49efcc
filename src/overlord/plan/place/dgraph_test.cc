#include "overlord/plan/place/dgraph.h"

#include <gtest/gtest.h>

namespace overlord::plan {
namespace {

model::Segment segment(uint64_t position, uint32_t count) {
  model::Segment out;
  out.id = {0, 0, position};
  out.count = count;
  return out;
}

DGraph four_bins() {
  std::vector<model::Segment> segments;
  for (uint64_t i = 0; i < 6; ++i) segments.push_back(segment(i, 10));
  return DGraph(std::move(segments), {2, 3, 3, 6}, {2, 2, 1});
}

TEST(DGraph, NodesAreNumberedByKind) {
  const DGraph graph = four_bins();
  EXPECT_EQ(graph.kind_of(0), NodeKind::kSample);
  EXPECT_EQ(graph.kind_of(graph.bin_node(0)), NodeKind::kBin);
  EXPECT_EQ(graph.kind_of(graph.bin_node(3)), NodeKind::kBin);
  EXPECT_EQ(graph.kind_of(graph.microbatch_node(1, 1)), NodeKind::kMicrobatch);
  EXPECT_EQ(graph.kind_of(graph.consumer_node(1)), NodeKind::kConsumer);
  EXPECT_EQ(graph.edges().size(), 6u);  // packing
}

TEST(DGraph, TheNewestEdgeHolds) {
  DGraph graph = four_bins();
  graph.set_costs({1, 2, 4, 8, 16, 32}, {3, 4, 0, 56});
  graph.put(0, 0, 0, EdgeOp::kDeal);
  graph.put(1, 1, 0, EdgeOp::kDeal);
  graph.put(2, 0, 1, EdgeOp::kDeal);
  graph.put(3, 1, 1, EdgeOp::kDeal);
  EXPECT_EQ(graph.microbatch_costs(), (std::vector<int64_t>{3, 0, 4, 56}));
  const std::vector<uint32_t> swapped = {1, 0, 0, 1};  // consumer 0 only
  graph.renumber(swapped);
  const auto placements = graph.read_placements();
  ASSERT_TRUE(placements.ok());
  EXPECT_EQ((*placements)[0], (model::Placement{0, 1, 0}));
  EXPECT_EQ((*placements)[2], (model::Placement{0, 0, 0}));
  EXPECT_EQ((*placements)[3], (model::Placement{1, 1, 0}));
  EXPECT_EQ(graph.edges().back().op, EdgeOp::kOrder);
}

TEST(DGraph, BrokenPlacementsAreNotRead) {
  DGraph graph = four_bins();
  graph.put(0, 0, 0, EdgeOp::kBalance);
  EXPECT_NE(graph.read_placements().status().message().find("nowhere"), std::string::npos);
  for (uint32_t bin = 1; bin < 4; ++bin) graph.put(bin, 0, 0, EdgeOp::kBalance);
  EXPECT_NE(graph.read_placements().status().message().find("more bins"), std::string::npos);
}

TEST(DGraph, KeepsNodesAndEdgesWhenThePlanTakesTheSamples) {
  DGraph graph = four_bins();
  std::vector<model::Segment> segments;
  std::vector<uint32_t> bin_ends;
  graph.release(&segments, &bin_ends);
  EXPECT_EQ(segments.size(), 6u);
  EXPECT_EQ(graph.samples(), 6u);
  EXPECT_EQ(graph.kind_of(6), NodeKind::kBin);
}

}  // namespace
}  // namespace overlord::plan
