#include "overlord/runtime/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace overlord::runtime {
namespace {

TEST(Parallel, CallsEveryIndexOnceWithAnyNumberOfThreads) {
  for (const uint32_t threads : {0u, 1u, 3u, 64u}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{100}}) {
      std::vector<std::atomic<int>> calls(count);
      for_each_parallel(threads, count, [&](size_t i) { ++calls[i]; });
      for (const auto& call : calls) EXPECT_EQ(call, 1);
    }
  }
}

}  // namespace
}  // namespace overlord::runtime
