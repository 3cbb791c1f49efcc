// Pictures that were cut, flipped and spliced: no decoder may crash or break its plan.
// Needs codecs: JPEG PNG WEBP
#include "overlord/media/image/foreign_pictures_test.h"

#include <gtest/gtest.h>

#include "overlord/base/rng.h"

namespace overlord::media {
namespace {

TEST(ForeignPictures, NoBytesBreakAPromise) {
  const std::vector<std::string> good = good_pictures();
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::string bytes = good[seed % good.size()];
    const auto draw = [&](uint64_t n, uint64_t below) { return uniform_below(seed, 3, n, below); };
    const uint64_t changes = 1 + draw(0, 6);
    for (uint64_t i = 0; i < changes; ++i) {
      // Half of the changes go into the first bytes, where the headers are.
      const uint64_t reach =
          draw(10 * i + 1, 2) ? std::min<uint64_t>(bytes.size(), 200) : bytes.size();
      bytes[draw(10 * i + 2, reach)] = static_cast<char>(draw(10 * i + 3, 256));
    }
    if (draw(7, 4) == 0) bytes.resize(draw(8, bytes.size()));
    takes_picture(bytes);
  }
}

}  // namespace
}  // namespace overlord::media
