// Needs codecs: JPEG PNG WEBP
#include "overlord/media/image/image_head.h"

#include <gtest/gtest.h>

#include "overlord/media/image/made_up_images_test.h"

namespace overlord::media {
namespace {

// Of the first bytes as much is told as of the whole, as far as sizes go.
TEST(ImageHead, TellsTheSizeOfEveryFormat) {
  const Image image = photo(321, 123, 5);
  for (const std::string& bytes :
       {jpeg_of(image, {90, 2, 2, true, 6}), jpeg_of(image), png_of(image), webp_of(image, true),
        webp_of(image, false), webp_of(photo(321, 123, 5, 4), false)}) {
    const auto whole = probe_image(bytes);
    ASSERT_TRUE(whole.ok()) << whole.status().message();
    for (const size_t head : {size_t{1024}, bytes.size() / 2, bytes.size()}) {
      const auto got = probe_image_head({std::string_view(bytes).substr(0, head), bytes.size()});
      ASSERT_TRUE(got.ok()) << got.status().message() << ", " << head << " of " << bytes.size();
      EXPECT_EQ(got->width, whole->width);
      EXPECT_EQ(got->height, whole->height);
      EXPECT_EQ(got->orientation, whole->orientation);
      EXPECT_EQ(got->format, whole->format);
    }
  }
}

std::string little(uint32_t value) {
  std::string out;
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xFF);
  return out;
}

// WebP keeps EXIF behind the pixels: its end is asked for, and not what lies between.
TEST(ImageHead, FindsTheOrientationAtTheEndOfAWebp) {
  const std::string plain = webp_of(photo(160, 120, 5), true);
  std::string flags = std::string("\x08\0\0\0", 4) + std::string("\x9F\0\0\x77\0\0", 6);
  const std::string exif = exif_block(6);
  std::string body = "WEBPVP8X" + little(10) + flags + plain.substr(12) + "EXIF" +
                     little(static_cast<uint32_t>(exif.size())) + exif;
  const std::string bytes = "RIFF" + little(static_cast<uint32_t>(body.size())) + body;
  ASSERT_EQ(probe_image(bytes)->orientation, 6);
  BlobHead blob{std::string_view(bytes).substr(0, 512), bytes.size()};
  const auto need = image_probe_need(blob);
  ASSERT_TRUE(need.ok()) << need.status().message();
  EXPECT_EQ(need->size_bytes, exif.size() + 8);
  EXPECT_EQ(probe_image_head(blob)->orientation, 1);
  blob.tail_offset = need->offset;
  blob.tail = std::string_view(bytes).substr(need->offset, need->size_bytes);
  EXPECT_EQ(probe_image_head(blob)->orientation, 6);
}

TEST(ImageHead, WhatIsNoPictureIsNamed) {
  EXPECT_FALSE(probe_image_head({"GIF89a", 4000}).ok());
  EXPECT_FALSE(probe_image_head({"", 0}).ok());
  const std::string webp = webp_of(photo(64, 64, 1), true);
  const auto cut = probe_image_head({std::string_view(webp).substr(0, 40), webp.size() - 1});
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.status().message().find("cut"), std::string::npos);
  const std::string jpeg = jpeg_of(photo(64, 64, 1));
  const auto early = probe_image_head({std::string_view(jpeg).substr(0, 30), jpeg.size()});
  ASSERT_FALSE(early.ok());
  EXPECT_NE(early.status().message().find("first 30"), std::string::npos);
  for (size_t size = 0; size < 64; ++size) {  // never reads behind its bytes
    for (const std::string& bytes : {webp, jpeg}) {
      const std::string head(bytes, 0, size);
      static_cast<void>(probe_image_head({head, bytes.size()}));
      static_cast<void>(image_probe_need({head, bytes.size()}));
    }
  }
}

}  // namespace
}  // namespace overlord::media
