#include "overlord/plan/place/row_dealing.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "overlord/base/rng.h"

namespace overlord::plan {
namespace row_dealing_test {

constexpr uint32_t kSources = 4, kBuckets = 3, kRows = 400, kWindow = 20;

std::vector<model::BlockEntry> blocks() {
  std::vector<model::BlockEntry> out;
  for (uint32_t block = 0; block < kRows / 10; ++block) out.push_back({block * 10, 10, 0, 0, 0});
  return out;
}

// Windows of 20 rows in the order of the file: 20 in a pass.
SourceWindows windows() {
  static const std::vector<model::BlockEntry> all = blocks();
  return SourceWindows(
      [](SourceIndex, uint32_t) { return SourceOrder(all, model::Shuffle::kNone, kWindow, 0); });
}

// 60 bins of 7 segments anywhere in two passes of all sources.
model::Plan made_up_plan(uint64_t seed) {
  model::Plan plan;
  plan.step = 5;
  plan.versions.tree = 2;
  plan.plan_hash = digest_of("a plan");
  model::Layer& layer = plan.layers.emplace_back();
  layer.buckets = kBuckets;
  layer.microbatches = 10;
  layer.microbatch_size = 2;
  for (uint32_t bin = 0; bin < 60; ++bin) {
    layer.placements.push_back({bin % kBuckets, bin / 6, bin / 3 % 2});
    for (uint32_t i = 0; i < 7; ++i) {
      const uint64_t drawn = random_u64(seed, bin, i);
      model::Segment segment;
      segment.id = {static_cast<SourceIndex>(drawn % kSources),
                    static_cast<uint32_t>(drawn >> 8 & 1), (drawn >> 16) % kRows};
      segment.first = i;
      segment.count = 10;
      layer.segments.push_back(segment);
    }
    layer.bin_ends.push_back(static_cast<uint32_t>(layer.segments.size()));
  }
  return plan;
}

TEST(RowDealing, EveryRowGoesToTheOwnerOfItsWindowAndToNobodyElse) {
  const std::vector<uint32_t> slots = {1, 8, 3, 2};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    model::Plan plan = made_up_plan(seed);
    // The third source grew in the middle of its first pass.
    plan.owners = {{2, {{0, 3}, {11, 5}}}};
    SourceWindows known = windows();
    const auto index = model::PlanIndex::make(plan, kSources);
    const std::vector<DealtRows> dealt = deal_rows(plan, slots, &known, index.get());
    EXPECT_TRUE(std::is_sorted(dealt.begin(), dealt.end(),
                               [](const auto& a, const auto& b) { return a.slot < b.slot; }));
    std::map<std::pair<uint32_t, uint32_t>, model::LoaderSlot> owner;  // by bucket and ordinal
    for (const DealtRows& one : dealt) {
      EXPECT_TRUE(one.rows->fits());
      EXPECT_EQ(one.rows->step, 5u);
      EXPECT_EQ(one.rows->tree, 2u);
      EXPECT_EQ(one.rows->plan_hash, plan.plan_hash);
      for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
        for (const model::PlannedRow& row : one.rows->rows_of(bucket)) {
          ASSERT_TRUE(owner.emplace(std::pair(bucket, row.ordinal), one.slot).second);
          const model::Segment& segment =
              plan.layers[0].segments[index->buckets[bucket].segments[row.ordinal]];
          EXPECT_EQ((SampleId{one.slot.source, row.pass, row.position}), segment.id);
          EXPECT_EQ(row.end, segment.first + segment.count);
          const model::Owners owners =
              model::owners_of(plan.owners, segment.id.source, slots[segment.id.source]);
          const uint64_t window = segment.id.pass * 20 + segment.id.position / kWindow;
          EXPECT_EQ(one.slot.slot, owners.owner_of(window, 20));
        }
      }
    }
    EXPECT_EQ(owner.size(), plan.layers[0].segments.size());
    for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      std::set<model::LoaderSlot> asked;
      for (const auto& [where, slot] : owner) {
        if (where.first == bucket) asked.insert(slot);
      }
      EXPECT_EQ(index->buckets[bucket].readers,
                std::vector<model::LoaderSlot>(asked.begin(), asked.end()));
    }
  }
}

TEST(RowDealing, OneSlotAloneGetsTheSame) {
  const std::vector<uint32_t> slots = {1, 8, 3, 2};
  const model::Plan plan = made_up_plan(3);
  SourceWindows known = windows();
  const auto index = model::PlanIndex::make(plan, kSources);
  const std::vector<DealtRows> dealt = deal_rows(plan, slots, &known, index.get());
  for (const DealtRows& one : dealt) {
    const model::SlotRowsPtr alone = rows_of(plan, slots, &known, one.slot);
    ASSERT_NE(alone, nullptr);
    EXPECT_EQ(alone->rows, one.rows->rows);
    EXPECT_EQ(alone->buckets, one.rows->buckets);
  }
  EXPECT_EQ(rows_of(plan, slots, &known, {0, 1}), nullptr);
}

TEST(RowDealing, OneSlotPerSourceNeedsNoWindows) {
  const model::Plan plan = made_up_plan(1);
  const std::vector<uint32_t> slots(kSources, 1);
  const auto index = model::PlanIndex::make(plan, kSources);
  EXPECT_EQ(deal_rows(plan, slots, nullptr, index.get()).size(), kSources);
}

}  // namespace row_dealing_test
}  // namespace overlord::plan
