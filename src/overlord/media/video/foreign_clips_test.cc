// Clips that were cut, flipped and spliced: nothing may crash, hang or break its plan.
#include "overlord/media/video/foreign_clips_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "overlord/base/rng.h"
#include "overlord/media/video/kept_clips.h"

namespace overlord::media {
namespace {

TEST(ForeignClips, NoBytesBreakAPromise) {
  const auto good = kept_clips();
  for (uint64_t seed = 0; seed < 600; ++seed) {
    std::string bytes(good[seed % good.size()]);
    const auto draw = [&](uint64_t n, uint64_t below) { return uniform_below(seed, 4, n, below); };
    const uint64_t changes = 1 + draw(0, 6);
    for (uint64_t i = 0; i < changes; ++i) {
      bytes[draw(10 * i + 2, bytes.size())] = static_cast<char>(draw(10 * i + 3, 256));
    }
    if (draw(7, 4) == 0) bytes.resize(draw(8, bytes.size()));
    takes_clip(bytes);
  }
}

// Every four bytes of a file as a size or count of its own: the largest there is.
TEST(ForeignClips, NoCountIsBelieved) {
  for (const std::string_view good : kept_clips()) {
    for (size_t at = 0; at + 4 <= good.size(); ++at) {
      std::string bytes(good);
      std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), 4, at % 2 == 0 ? '\x7F' : '\xFF');
      takes_clip(bytes);
    }
  }
}

}  // namespace
}  // namespace overlord::media
