#include "overlord/runtime/handoff.h"

#include <gtest/gtest.h>

#include <thread>

namespace overlord::runtime {
namespace {

TEST(Handoff, KeepsOrderAcrossThreads) {
  Handoff<int> handoff;
  std::thread writer([&] {
    for (int i = 0; i < 1000; ++i) handoff.push(i);
  });
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(handoff.pop(10'000), i);
  writer.join();
}

TEST(Handoff, TimesOutWithNothing) {
  Handoff<int> handoff;
  EXPECT_FALSE(handoff.pop(1).has_value());
  EXPECT_FALSE(handoff.closed());
}

TEST(Handoff, ClosingWakesTheWaiterAndDropsTheRest) {
  Handoff<int> handoff;
  std::thread closer([&] { handoff.close(); });
  EXPECT_FALSE(handoff.pop(60'000).has_value());
  closer.join();
  handoff.push(1);
  EXPECT_EQ(handoff.size(), 0u);
}

}  // namespace
}  // namespace overlord::runtime
