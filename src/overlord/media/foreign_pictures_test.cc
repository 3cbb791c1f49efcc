// Pictures that were cut, flipped and spliced: no decoder may crash or break its plan.
#include "overlord/media/foreign_pictures_test.h"

#include <gtest/gtest.h>

#include "overlord/media/made_up_images_test.h"

namespace overlord::media {
namespace {

TEST(ForeignPictures, NoBytesBreakAPromise) {
  const Image image = photo(50, 40, 1);
  const Image wide = photo(50, 40, 2, 4);
  const std::string good[] = {
      jpeg_of(image, {.quality = 50, .orientation = 6}),
      jpeg_of(image, {.quality = 50, .progressive = true}),
      jpeg_of(wide, {.quality = 50}),
      jpeg_of(image, {.quality = 95, .across = 1, .down = 1, .restart = 3, .optimised = true}),
      jpeg_of(photo(50, 40, 3, 1), {.quality = 80, .restart = 5}),
      png_of(image),
      png_of(wide),
      webp_of(image, false),
      webp_of(wide, true),
  };
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::string bytes = good[seed % std::size(good)];
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
