#include "overlord/media/jpeg_baseline.h"

#include <gtest/gtest.h>

#include "overlord/media/jpeg_planes_test.h"
#include "overlord/media/made_up_images_test.h"

namespace overlord::media {
namespace {

constexpr int32_t kDivisors[] = {1, 2, 4, 8};

// How many of the four divisors our decoder took; every one gives libjpeg's samples.
int64_t taken_of(const std::string& bytes) {
  const ImageHeader header = probe_image(bytes).value();
  int64_t taken = 0;
  for (const int32_t divisor : kDivisors) {
    EXPECT_EQ(difference_from_libjpeg(bytes, header, divisor, &taken), "") << "1/" << divisor;
  }
  return taken;
}

JpegShape drawn_shape(uint64_t seed) {
  const auto draw = [&](uint64_t n, uint64_t below) {
    return static_cast<int>(uniform_below(seed, 5, n, below));
  };
  JpegShape shape;
  shape.quality = 5 + draw(0, 96);
  shape.across = 1 + draw(1, 2);
  shape.down = 1 + draw(2, 2);
  shape.restart = draw(3, 3) == 0 ? 1 + draw(4, 12) : 0;
  shape.optimised = draw(5, 2) == 0;
  shape.adobe = draw(6, 4) == 0;
  shape.jfif = draw(7, 4) != 0;
  return shape;
}

TEST(JpegBaseline, EqualsLibjpegInEverySize) {
  for (int32_t side = 1; side <= 70; ++side) {
    for (const int across : {1, 2}) {
      for (const int down : {1, 2}) {
        const auto seed = static_cast<uint64_t>(side);
        JpegShape shape = drawn_shape(seed * 4 + static_cast<uint64_t>(across * 2 + down));
        shape.across = across;
        shape.down = down;
        const int32_t other = 1 + side * 37 % 70;
        ASSERT_EQ(taken_of(jpeg_of(photo(side, other, seed), shape)), 4) << side << "x" << other;
      }
    }
    ASSERT_EQ(taken_of(jpeg_of(photo(side, 71 - side, 9, 1), {.quality = side + 30})), 4) << side;
  }
}

TEST(JpegBaseline, EqualsLibjpegInEveryQualityAndLayout) {
  int64_t left = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const auto width = static_cast<int32_t>(20 + uniform_below(seed, 1, 0, 180));
    const auto height = static_cast<int32_t>(20 + uniform_below(seed, 1, 1, 180));
    const int32_t channels = seed % 5 == 0 ? 1 : 3;
    // Noise has blocks beyond what our decoder dares; most of all at low quality.
    const bool noisy = seed % 7 == 3;
    const Image image =
        noisy ? noise(width, height, seed, channels) : photo(width, height, seed, channels);
    const int64_t taken = taken_of(jpeg_of(image, drawn_shape(seed)));
    if (noisy) {
      left += 4 - taken;
    } else {
      ASSERT_EQ(taken, 4) << seed;
    }
  }
  std::printf("noise left to libjpeg: %ld\n", static_cast<long>(left));
}

}  // namespace
}  // namespace overlord::media
