#include "pack_stream.h"

#include <gtest/gtest.h>

#include "overlord/plan/place/made_up_job_test.h"

namespace overlord::bench {
namespace {

TEST(PackStream, PlacesEverythingAndReachesItsFill) {
  const auto lengths = plan::text_lengths(1, 50'000, 4000);
  uint64_t tokens = 0;
  for (uint32_t length : lengths) tokens += length;
  const PackStats stats = pack_stream(lengths, 4096, 64, 50, 4);
  EXPECT_EQ(stats.documents, lengths.size());
  EXPECT_EQ(stats.tokens, tokens);
  EXPECT_GE(stats.fill_ppm, 997'000u);
  EXPECT_LE(stats.max_delay, 4u);
  EXPECT_EQ(pack_stream({}, 4096, 64, 50, 4).steps, 0u);
}

}  // namespace
}  // namespace overlord::bench
