// Needs codecs: JPEG
#include "overlord/media/image/codecs/jpeg_baseline.h"

#include <gtest/gtest.h>

#include "overlord/media/image/codecs/jpeg_planes_test.h"
#include "overlord/media/image/made_up_images_test.h"

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
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto width = static_cast<int32_t>(20 + uniform_below(seed, 1, 0, 180));
    const auto height = static_cast<int32_t>(20 + uniform_below(seed, 1, 1, 180));
    const int32_t channels = seed % 5 == 0 ? 1 : 3;
    const Image image =
        seed % 7 == 3 ? noise(width, height, seed, channels) : photo(width, height, seed, channels);
    ASSERT_EQ(taken_of(jpeg_of(image, drawn_shape(seed))), 4) << seed;
  }
}

// Bytes of the scan and of the tables are changed: the verdict and, where there is one, the picture
// are libjpeg's, whether our decoder takes the file or leaves it.
TEST(JpegBaseline, AgreesWithLibjpegOnDamagedFiles) {
  int64_t taken = 0;
  int64_t left = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    std::string bytes = jpeg_of(photo(60, 50, seed % 5), drawn_shape(seed));
    const auto draw = [&](uint64_t n, uint64_t below) { return uniform_below(seed, 8, n, below); };
    const size_t tables = bytes.find("\xFF\xDB");
    const size_t from = seed % 3 == 0 ? tables : bytes.find("\xFF\xDA");
    for (uint64_t i = 0; i <= draw(0, 3); ++i) {
      bytes[from + draw(2 * i + 1, bytes.size() - from)] = static_cast<char>(draw(2 * i + 2, 256));
    }
    const auto header = probe_image(bytes);
    if (!header.ok()) continue;
    for (const int32_t divisor : kDivisors) {
      const int64_t before = taken;
      ASSERT_EQ(difference_from_libjpeg(bytes, *header, divisor, &taken), "") << seed;
      left += taken == before;
    }
  }
  // Both happen, or the test says little.
  EXPECT_GT(taken, 500);
  EXPECT_GT(left, 500);
}

TEST(JpegBaseline, LeavesUnusualFilesToLibjpeg) {
  const Image image = photo(64, 48, 1);
  const auto takes = [](const std::string& bytes) {
    const auto header = probe_image(bytes);
    DecodeScratch scratch;
    JpegPlanes planes;
    return header.ok() && decode_baseline_planes(bytes, *header, 2, scratch, &planes);
  };
  const std::string good = jpeg_of(image, {.restart = 2});
  EXPECT_TRUE(takes(good));
  EXPECT_FALSE(takes(jpeg_of(image, {.progressive = true})));
  EXPECT_FALSE(takes(jpeg_of(photo(64, 48, 1, 4))));
  EXPECT_FALSE(takes(good.substr(0, good.size() - 2))) << "no end of image";
  std::string swapped = good;
  swapped[good.rfind("\xFF\xD1") + 1] = '\xD2';
  EXPECT_FALSE(takes(swapped)) << "restart markers out of order";
  std::string longer = good;
  longer.insert(longer.size() - 2, 3, '\x55');
  EXPECT_FALSE(takes(longer)) << "more data than blocks";
  std::string red_green_blue = jpeg_of(image, {.jfif = false});
  EXPECT_TRUE(takes(red_green_blue)) << "components 1, 2, 3";
  for (const char id : {'R', 'G', 'B'}) {
    const size_t nth = id == 'R' ? 0 : id == 'G' ? 1 : 2;
    red_green_blue[red_green_blue.find("\xFF\xC0") + 10 + 3 * nth] = id;
    red_green_blue[red_green_blue.find("\xFF\xDA") + 5 + 2 * nth] = id;
  }
  EXPECT_FALSE(takes(red_green_blue));
}

}  // namespace
}  // namespace overlord::media
