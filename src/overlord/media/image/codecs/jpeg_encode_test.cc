// Needs codecs: JPEG
#include "overlord/media/image/codecs/jpeg_encode.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "overlord/media/image/image_decode.h"
#include "overlord/media/image/made_up_images_test.h"

namespace overlord::media {
namespace {

int64_t mean_difference_permille(const Image& a, const Image& b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.size_bytes(); ++i) {
    sum += std::abs(int64_t{a.samples[i]} - int64_t{b.samples[i]});
  }
  return sum * 1000 / static_cast<int64_t>(a.size_bytes());
}

Image decoded(const std::string& bytes) {
  const Result<ImageHeader> header = probe_image(bytes);
  EXPECT_TRUE(header.ok());
  DecodeScratch scratch;
  Image out;
  EXPECT_TRUE(decode_image(bytes, *header, {}, 1, scratch, &out).ok());
  return out;
}

TEST(JpegEncode, IsCloseToWhatWentInAndTheLibrarysOwn) {
  const Image image = photo(61, 43, 1);
  const Result<std::string> bytes = encode_jpeg(image.view(), 90);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, jpeg_of(image, {.quality = 90}));
  const Image out = decoded(*bytes);
  ASSERT_EQ(out.width, 61);
  ASSERT_EQ(out.height, 43);
  EXPECT_LT(mean_difference_permille(image, out), 12'000);
}

TEST(JpegEncode, GreyAndPartsOfPictures) {
  const Image image = photo(40, 30, 2, 1);
  const ImageView part = image.view().part({8, 8, 16, 9});
  const Result<std::string> bytes = encode_jpeg(part, 100);
  ASSERT_TRUE(bytes.ok());
  const Result<ImageHeader> header = probe_image(*bytes);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->width, 16);
  EXPECT_EQ(header->height, 9);
  EXPECT_EQ(header->channels, 1);
}

TEST(JpegEncode, RefusesWhatIsNoPicture) {
  const Image image = photo(8, 8, 3, 4);
  for (const auto& [channels, quality] : {std::pair{4, 90}, {3, 0}, {3, 101}}) {
    ImageView view = image.view();
    view.channels = channels;
    const Result<std::string> bytes = encode_jpeg(view, quality);
    ASSERT_FALSE(bytes.ok());
    EXPECT_EQ(bytes.status().code(), Code::kInvalidArgument);
  }
  ImageView wide = image.view();
  wide.width = 70'000;  // the format counts to 65,535; refused before a row is read
  EXPECT_FALSE(encode_jpeg(wide, 90).ok());
}

}  // namespace
}  // namespace overlord::media
