#include "overlord/node/status/stuck_loaders.h"

#include <gtest/gtest.h>

namespace overlord::node {
namespace {

constexpr int64_t kStuckSecond = 1'000'000'000;

LoaderStatus loader(uint64_t in_work, uint64_t read_bytes, uint32_t slot = 0) {
  LoaderStatus out;
  out.source = "web";
  out.slot = slot;
  out.blocks_in_work = in_work;
  out.counts.read_bytes = read_bytes;
  return out;
}

TEST(StuckLoaders, WorkWithoutProgressIsCounted) {
  StuckLoaders stuck;
  const auto told = [&](LoaderStatus one, int64_t second, int64_t cpu_ns = 0) {
    EngineStatus status;
    status.loaders = {std::move(one)};
    return stuck.longest_ms(status, cpu_ns, second * kStuckSecond);
  };
  EXPECT_EQ(told(loader(1, 10), 100), 0u);
  EXPECT_EQ(told(loader(1, 10), 107), 7000u);
  EXPECT_EQ(told(loader(1, 11), 108), 0u) << "it came further";
  EXPECT_EQ(told(loader(2, 11), 110), 2000u);
  EXPECT_EQ(told(loader(0, 11), 200), 0u) << "nobody asks it for anything";
  EXPECT_EQ(told(loader(1, 11), 201), 1000u);
  LoaderStatus shadow = loader(1, 11);
  shadow.standby = true;
  EXPECT_EQ(told(shadow, 300), 0u);
  EXPECT_EQ(told(loader(1, 11), 310), 10'000u);
  EXPECT_EQ(told(loader(1, 11), 311, kStuckSecond / 10), 0u) << "somebody works on it";
  EXPECT_EQ(told(loader(1, 11), 312, kStuckSecond / 9), 1000u) << "that is no work";
}

TEST(StuckLoaders, TheLongestCounts) {
  StuckLoaders stuck;
  EngineStatus status;
  status.loaders = {loader(1, 10, 0), loader(1, 10, 1)};
  stuck.longest_ms(status, 0, kStuckSecond);
  status.loaders[1].counts.read_bytes = 11;
  EXPECT_EQ(stuck.longest_ms(status, 0, 3 * kStuckSecond), 2000u);
}

}  // namespace
}  // namespace overlord::node
