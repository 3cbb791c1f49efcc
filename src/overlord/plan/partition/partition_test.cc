#include "overlord/plan/partition/partition.h"

#include <gtest/gtest.h>

#include <random>

namespace overlord::plan {
namespace {

SourceLoad costing(const std::string& name, uint64_t work_ns, uint64_t rows_per_step) {
  return {name, work_ns, 0, rows_per_step, 0, 0};
}

PartitionRoom room_of(uint32_t cores) {
  PartitionRoom room;
  room.cores = cores;
  room.cluster = 1;
  return room;
}

std::vector<uint32_t> workers_of(const Partition& partition) {
  std::vector<uint32_t> out;
  for (const LoaderSize& size : partition.sizes) out.push_back(size.loaders * size.workers);
  return out;
}

TEST(Partition, CoresGoToWhoWouldBeSlowest) {
  const std::vector<SourceLoad> sources = {costing("light", 10, 100), costing("heavy", 1000, 100),
                                           costing("rare", 1000, 1)};
  PartitionRoom room = room_of(12);
  room.taken_cores = 2;
  const Partition found = *partition_sources(sources, room);
  EXPECT_EQ(found.free_cores, 10u);
  EXPECT_EQ(workers_of(found), (std::vector<uint32_t>{1, 8, 1}));
  EXPECT_EQ(found.sizes[1].loaders, 2u) << "of four workers each";
  EXPECT_EQ(found.sizes[1].reason, SizeReason::kCost);
  EXPECT_EQ(found.sizes[0].reason, SizeReason::kLeast);
  EXPECT_EQ(found.sizes[2].reason, SizeReason::kRowsOfAStep);
  EXPECT_EQ(found.step_ns, 1000u * 100 / 8);
}

TEST(Partition, AsManyAsWereDealtAndNotAsManyAsFillTheLastLoader) {
  const std::vector<SourceLoad> sources = {costing("pictures", 1000, 100), costing("web", 1, 100)};
  const Partition found = *partition_sources(sources, room_of(14));
  EXPECT_EQ(found.sizes[0].loaders, 4u) << "of four workers at most, for thirteen";
  EXPECT_EQ(found.sizes[0].workers, 3u);
  EXPECT_EQ(workers_of(*partition_sources(sources, room_of(12))), (std::vector<uint32_t>{12, 1}))
      << "eleven are nearer to three loaders of four than to nine";
}

TEST(Partition, NobodyHasLessThanOneHoweverFewCoresThereAre) {
  const std::vector<SourceLoad> sources(9, costing("s", 1000, 100));
  PartitionRoom room = room_of(2);
  room.taken_cores = 7;
  for (const SizeRule rule : {SizeRule::kFill, SizeRule::kRatio}) {
    room.rule = rule;
    EXPECT_EQ(workers_of(*partition_sources(sources, room)), std::vector<uint32_t>(9, 1));
  }
}

TEST(Partition, ThePapersRuleCountsByTheCheapestCluster) {
  const std::vector<SourceLoad> sources = {costing("a", 100, 50), costing("b", 300, 50),
                                           costing("c", 1000, 50), costing("d", 1000, 2)};
  PartitionRoom room = room_of(100);
  room.rule = SizeRule::kRatio;
  const Partition found = *partition_sources(sources, room);
  EXPECT_EQ(workers_of(found), (std::vector<uint32_t>{1, 3, 9, 2})) << "ten are three loaders of 3";
  EXPECT_EQ(found.sizes[3].reason, SizeReason::kRowsOfAStep);
  room.cores = 8;
  const Partition less = *partition_sources(sources, room);
  EXPECT_EQ(less.sizes[2].loaders * less.sizes[2].workers, 4u) << "five";
  EXPECT_EQ(less.sizes[2].reason, SizeReason::kCores);
}

TEST(Partition, ThoseOfAClusterAreSizedAsOne) {
  std::vector<SourceLoad> sources;
  for (int i = 0; i < 8; ++i) sources.push_back(costing("s", i < 4 ? 1000 + i : 10 + i, 100));
  PartitionRoom room = room_of(40);
  room.cluster = 4;
  const Partition found = *partition_sources(sources, room);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(found.sizes[i].cluster, i < 4 ? 0u : 1u);
  EXPECT_EQ(workers_of(found), (std::vector<uint32_t>{9, 9, 9, 9, 1, 1, 1, 1}));
}

TEST(Partition, WhoWaitsForStorageHasMoreInWork) {
  SourceLoad waits = costing("far", 100, 1000);
  waits.wait_ns = 300;
  const Partition found = *partition_sources(std::vector{waits}, room_of(2));
  EXPECT_EQ(workers_of(found), std::vector<uint32_t>{8});
  EXPECT_EQ(found.step_ns, 50'000u) << "two cores work, however many wait";
}

TEST(Partition, MoreLoadersShareWhatFitsNoSingleOne) {
  SourceLoad large = costing("large", 1000, 1000);
  large.buffer_bytes = 1000;
  large.state_bytes = 10;
  PartitionRoom room = room_of(4);
  room.loader_bytes = 300;
  const Partition found = *partition_sources(std::vector{large}, room);
  EXPECT_EQ(found.sizes[0].loaders, 4u);
  EXPECT_EQ(found.sizes[0].loader_bytes, 260u);
  EXPECT_EQ(found.sizes[0].reason, SizeReason::kMemory);
  room.loader_bytes = 9;
  const auto refused = partition_sources(std::vector{large}, room);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("source large"), std::string::npos);
}

TEST(Partition, WhoHasMostGivesWorkersUp) {
  SourceLoad wide = costing("wide", 1000, 1000), small = costing("small", 1000, 1000);
  wide.state_bytes = 100;
  small.state_bytes = 1;
  PartitionRoom room = room_of(8);
  room.memory_bytes = 250;
  const Partition found = *partition_sources(std::vector{wide, small}, room);
  EXPECT_EQ(workers_of(found), (std::vector<uint32_t>{2, 4}));
  EXPECT_EQ(found.sizes[0].reason, SizeReason::kMemory);
  EXPECT_LE(found.memory_bytes, room.memory_bytes);
  room.memory_bytes = 50;
  EXPECT_EQ(partition_sources(std::vector{wide, small}, room).status().code(), Code::kResource);
}

// Whatever is asked: everybody can work, no limit is passed, and the answer is the same again.
TEST(Partition, LimitsHold) {
  std::mt19937_64 dice(7);
  for (int world = 0; world < 2000; ++world) {
    std::vector<SourceLoad> sources(1 + dice() % 40);
    for (SourceLoad& one : sources) {
      one = {"s", dice() % 100'000, dice() % 1000, 1 + dice() % 500, dice() % 9999, dice() % 99};
    }
    PartitionRoom room = room_of(static_cast<uint32_t>(dice() % 300));
    room.taken_cores = static_cast<uint32_t>(dice() % 20);
    room.cluster = 1 + static_cast<uint32_t>(dice() % 6);
    room.source_workers = 1 + static_cast<uint32_t>(dice() % 40);
    room.loader_workers = 1 + static_cast<uint32_t>(dice() % 8);
    room.rule = dice() % 2 == 0 ? SizeRule::kFill : SizeRule::kRatio;
    const Partition found = *partition_sources(sources, room);
    ASSERT_EQ(found.sizes.size(), sources.size());
    for (size_t s = 0; s < sources.size(); ++s) {
      const LoaderSize& size = found.sizes[s];
      ASSERT_GE(size.loaders, 1u);
      ASSERT_GE(size.workers, 1u);
      ASSERT_LE(size.workers, room.loader_workers);
      // Loaders of a source have as many workers each: at most a loader's worth is rounded up.
      ASSERT_LT((size.loaders - 1) * size.workers, room.source_workers + size.loaders);
    }
    ASSERT_EQ(workers_of(*partition_sources(sources, room)), workers_of(found));
  }
}

}  // namespace
}  // namespace overlord::plan
