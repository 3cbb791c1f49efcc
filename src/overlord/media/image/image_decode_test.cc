// Needs codecs: JPEG PNG WEBP
#include "overlord/media/image/image_decode.h"

#include <gtest/gtest.h>

#include "overlord/media/codecs.h"
#include "overlord/media/image/made_up_images_test.h"

namespace overlord::media {
namespace {

Status decode(const std::string& bytes, const DecodeOptions& options, Image* out) {
  const Result<ImageHeader> header = probe_image(bytes);
  if (!header.ok()) return header.status();
  DecodeScratch scratch;
  return decode_image(bytes, *header, options, 1, scratch, out);
}

int32_t largest_difference(const Image& a, const Image& b) {
  int32_t most = 0;
  for (size_t i = 0; i < a.size_bytes(); ++i) {
    most = std::max(most, std::abs(int32_t{a.samples[i]} - int32_t{b.samples[i]}));
  }
  return most;
}

TEST(ImageDecode, LosslessFormatsGiveTheirPixelsBack) {
  const Image image = photo(61, 43, 1);
  Image out;
  for (const std::string& bytes : {png_of(image), webp_of(image, true)}) {
    ASSERT_TRUE(decode(bytes, {}, &out).ok());
    EXPECT_EQ(out.width, 61);
    EXPECT_EQ(largest_difference(image, out), 0);
  }
}

TEST(ImageDecode, AlphaIsLaidOverOrDroppedAsDeclared) {
  Image image = photo(20, 10, 2, 4);
  for (size_t i = 3; i < image.size_bytes(); i += 4) image.samples[i] = 0;
  DecodeOptions over;
  over.background = {9, 8, 7};
  DecodeOptions drop;
  drop.alpha = AlphaRule::kDrop;
  for (const std::string& bytes : {png_of(image), webp_of(image, true)}) {
    Image out;
    ASSERT_TRUE(decode(bytes, over, &out).ok());
    EXPECT_EQ(out.samples[0], 9);
    EXPECT_EQ(out.samples[1], 8);
    ASSERT_TRUE(decode(bytes, drop, &out).ok());
    // WebP's encoder forgets colours that cannot be seen.
    if (probe_image(bytes)->format == ImageFormat::kPng) {
      EXPECT_EQ(out.samples[0], image.samples[0]);
    }
  }
}

TEST(ImageDecode, LimitsHoldBeforeAnythingIsDecoded) {
  const std::string bytes = jpeg_of(photo(200, 100, 3), {.progressive = true});
  Image out;
  const auto message = [&](const ImageLimits& limits) {
    return decode(bytes, {.limits = limits}, &out).message();
  };
  EXPECT_NE(message({.pixels = 19999}).find("pixels = 19999"), std::string::npos);
  EXPECT_NE(message({.bytes = 100}).find("bytes = 100"), std::string::npos);
  EXPECT_NE(message({.scans = 9}).find("scans = 9"), std::string::npos);
  EXPECT_NE(message({.ratio = 1, .ratio_floor = 0}).find("ratio = 1"), std::string::npos);
  EXPECT_EQ(out.samples.size(), 0U);
}

// A header of 65,500 x 65,500 with a kilobyte behind it.
TEST(ImageDecode, ABombIsRefusedFromItsHeader) {
  std::string bytes = jpeg_of(photo(64, 48, 4));
  const size_t frame = bytes.find("\xff\xc0");
  bytes[frame + 5] = bytes[frame + 7] = '\xff';
  bytes[frame + 6] = bytes[frame + 8] = '\xdc';
  Image out;
  EXPECT_NE(decode(bytes, {}, &out).message().find("refused before decoding"), std::string::npos);
}

TEST(ImageDecode, CutFilesAreRefusedNotFilledWithGrey) {
  for (const bool progressive : {false, true}) {
    const std::string whole = jpeg_of(photo(160, 120, 5), {.progressive = progressive});
    Image out;
    ASSERT_TRUE(decode(whole, {}, &out).ok());
    for (const size_t part : {2UL, 3UL, 5UL}) {
      EXPECT_FALSE(decode(whole.substr(0, whole.size() * part / 6), {}, &out).ok()) << part;
    }
    // The session goes on after a failure.
    EXPECT_TRUE(decode(whole, {}, &out).ok());
  }
  for (const std::string& whole : {png_of(photo(99, 55, 6)), webp_of(photo(99, 55, 6), false)}) {
    Image out;
    EXPECT_FALSE(decode(whole.substr(0, whole.size() / 2), {}, &out).ok());
  }
}

// libjpeg would take the tables of the file before.
TEST(ImageDecode, AFileWithoutItsTablesIsRefusedWhateverCameBefore) {
  const std::string whole = jpeg_of(photo(64, 48, 8));
  std::string bare = whole;
  const size_t table = bare.find("\xFF\xDB");
  bare.erase(table, bare.find("\xFF\xC0") - table);
  const ImageHeader header = probe_image(bare).value();
  DecodeScratch scratch;
  Image out;
  ASSERT_TRUE(decode_image(whole, header, {}, 1, scratch, &out).ok());
  EXPECT_FALSE(decode_image(bare, header, {}, 1, scratch, &out).ok());
  EXPECT_TRUE(decode_image(whole, header, {}, 1, scratch, &out).ok());
}

TEST(ImageDecode, PlanesHoldThePictureAtEveryDivisorAndSampling) {
  for (const int across : {1, 2}) {
    for (const int down : {1, 2}) {
      const std::string bytes = jpeg_of(photo(203, 155, 7), {.across = across, .down = down});
      const ImageHeader header = probe_image(bytes).value();
      DecodeScratch scratch;
      for (const int32_t divisor : {1, 2, 4, 8}) {
        JpegPlanes planes;
        ASSERT_TRUE(decode_jpeg_planes(bytes, header, {}, divisor, scratch, &planes).ok());
        ASSERT_EQ(planes.count, 3);
        EXPECT_EQ(planes.planes[0].width, (203 + divisor - 1) / divisor);
        EXPECT_EQ(planes.planes[0].height, (155 + divisor - 1) / divisor);
        Image rgb;
        ASSERT_TRUE(decode_image(bytes, header, {}, divisor, scratch, &rgb).ok());
        EXPECT_EQ(rgb.width, planes.planes[0].width);
      }
    }
  }
}

TEST(Codecs, ListsAllWithFingerprints) {
  ASSERT_EQ(codecs().size(), 5U);
  for (const Codec& codec : codecs()) {
    EXPECT_TRUE(codec.present) << codec.name;
    EXPECT_NE(codec.fingerprint, Digest{}) << codec.name;
  }
}

}  // namespace
}  // namespace overlord::media
