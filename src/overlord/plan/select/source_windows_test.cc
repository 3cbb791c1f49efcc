#include "overlord/plan/select/source_windows.h"

#include <gtest/gtest.h>

#include "overlord/base/rng.h"

namespace overlord::plan {
namespace source_windows_test {

// 200 blocks of 1 to 9 rows, shuffled, in small windows.
std::vector<model::BlockEntry> blocks() {
  std::vector<model::BlockEntry> out;
  uint64_t first_row = 0;
  for (uint32_t block = 0; block < 200; ++block) {
    const auto rows = static_cast<uint32_t>(1 + random_u64(1, block, 0) % 9);
    out.push_back({first_row, rows, 0, 0, 0});
    first_row += rows;
  }
  return out;
}

TEST(SourceWindows, SayWhatTheOrderSaysWhateverTheyWereAskedBefore) {
  const std::vector<model::BlockEntry> all = blocks();
  uint64_t made = 0;
  const auto order = [&](SourceIndex source, uint32_t pass) {
    ++made;
    return SourceOrder(all, model::Shuffle::kWindow, 12, order_key(source, "a", pass));
  };
  SourceWindows windows(order);
  EXPECT_EQ(windows.windows_per_pass(4), order(4, 0).windows());
  for (uint64_t draw = 0; draw < 20'000; ++draw) {
    SampleId id{static_cast<SourceIndex>(random_u64(2, draw, 0) % 3),
                static_cast<uint32_t>(random_u64(2, draw, 1) % 4), 0};
    const SourceOrder truth(all, model::Shuffle::kWindow, 12, order_key(id.source, "a", id.pass));
    // Mostly where it was asked before.
    const uint64_t near = draw % 8 == 0 ? truth.rows() : 30;
    id.position = random_u64(2, draw, 2) % near;
    ASSERT_EQ(windows.window_of(id), truth.window_of(id.position));
  }
  EXPECT_LE(made, 14u) << "orders are remembered";
}

}  // namespace source_windows_test
}  // namespace overlord::plan
