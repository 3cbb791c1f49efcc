#include "overlord/node/hosts/memory_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace overlord::node {
namespace memory_watch_test {

constexpr int64_t kSecond = 1'000'000'000;

HostMemory held(uint64_t percent) { return {percent, 100, 50, 100}; }

TEST(MemoryWatch, AsksForLessUntilThereIsEnough) {
  MemoryWatch watch;
  EXPECT_FALSE(watch.look(held(90), 0));
  EXPECT_EQ(watch.look(held(91), 0), true);
  EXPECT_FALSE(watch.look(held(95), 4 * kSecond)) << "what it asked for takes a while";
  EXPECT_EQ(watch.look(held(95), 5 * kSecond), true);
  EXPECT_FALSE(watch.look(held(80), 11 * kSecond));
}

TEST(MemoryWatch, AsksForMoreOnlyAfterALongWhileWithMuchRoom) {
  MemoryWatch watch;
  EXPECT_FALSE(watch.look(held(10), 0)) << "it has never asked for less";
  EXPECT_EQ(watch.look(held(99), 0), true);
  EXPECT_FALSE(watch.look(held(59), kSecond));
  EXPECT_FALSE(watch.look(held(61), 50 * kSecond)) << "neither short nor roomy: it begins anew";
  EXPECT_FALSE(watch.look(held(59), 62 * kSecond));
  EXPECT_FALSE(watch.look(held(59), 121 * kSecond));
  EXPECT_EQ(watch.look(held(59), 122 * kSecond), false);
  EXPECT_FALSE(watch.look(held(59), 181 * kSecond)) << "one at a time";
  EXPECT_EQ(watch.look(held(59), 182 * kSecond), false);
}

TEST(MemoryWatch, AMachineThatRunsFullCountsWhoeverFillsIt) {
  MemoryWatch watch;
  EXPECT_FALSE(watch.look({1, 0, 5, 100}, 0));
  EXPECT_EQ(watch.look({1, 0, 4, 100}, 0), true);
}

TEST(HostMemory, IsThatOfThisProcessAndItsMachine) {
  const HostMemory before = read_host_memory(7);
  EXPECT_EQ(before.given_bytes, 7u);
  EXPECT_GT(before.available_bytes, 0u);
  EXPECT_LE(before.available_bytes, before.total_bytes);
  const std::vector<char> more(64 << 20, 1);
  EXPECT_GE(read_host_memory(7).held_bytes, before.held_bytes + more.size() / 2);
}

}  // namespace memory_watch_test
}  // namespace overlord::node
