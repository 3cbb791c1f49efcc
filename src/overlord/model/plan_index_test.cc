#include "overlord/model/plan_index.h"

#include <gtest/gtest.h>

namespace overlord::model {
namespace {

// Four bins of 2, 0, 1, 3 segments on two buckets, microbatches of one bin.
Plan sample_plan() {
  Plan plan;
  Layer layer;
  layer.buckets = 2;
  layer.microbatches = 2;
  layer.microbatch_size = 1;
  layer.bin_ends = {2, 2, 3, 6};
  layer.segments.resize(6);
  const uint32_t sources[] = {1, 0, 2, 1, 1, 0};
  for (uint32_t i = 0; i < 6; ++i) layer.segments[i].id = {sources[i], 0, i};
  layer.placements = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {1, 1, 0}};
  plan.layers.push_back(layer);
  return plan;
}

TEST(PlanIndex, GroupsSegmentsByBucketAndRow) {
  const auto index = PlanIndex::make(sample_plan(), 4);
  const BucketIndex& first = index->buckets[0];
  EXPECT_EQ(first.segments, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(first.row_ends, (std::vector<uint32_t>{2, 3}));
  const BucketIndex& second = index->buckets[1];
  EXPECT_EQ(second.segments, (std::vector<uint32_t>{3, 4, 5}));
  EXPECT_EQ(second.row_ends, (std::vector<uint32_t>{0, 3}));
}

}  // namespace
}  // namespace overlord::model
