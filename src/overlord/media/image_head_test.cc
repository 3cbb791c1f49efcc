// Needs codecs: JPEG PNG WEBP
#include "overlord/media/image_head.h"

#include <gtest/gtest.h>

#include "overlord/media/made_up_images_test.h"

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
      const auto got = probe_image_head(std::string_view(bytes).substr(0, head), bytes.size());
      ASSERT_TRUE(got.ok()) << got.status().message() << ", " << head << " of " << bytes.size();
      EXPECT_EQ(got->width, whole->width);
      EXPECT_EQ(got->height, whole->height);
      EXPECT_EQ(got->orientation, whole->orientation);
      EXPECT_EQ(got->format, whole->format);
    }
  }
}

TEST(ImageHead, WhatIsNoPictureIsNamed) {
  EXPECT_FALSE(probe_image_head("GIF89a", 4000).ok());
  EXPECT_FALSE(probe_image_head("", 0).ok());
  const std::string webp = webp_of(photo(64, 64, 1), true);
  const auto cut = probe_image_head(std::string_view(webp).substr(0, 40), webp.size() - 1);
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.status().message().find("cut"), std::string::npos);
  const std::string jpeg = jpeg_of(photo(64, 64, 1));
  const auto early = probe_image_head(std::string_view(jpeg).substr(0, 30), jpeg.size());
  ASSERT_FALSE(early.ok());
  EXPECT_NE(early.status().message().find("first 30"), std::string::npos);
  for (size_t size = 0; size < 64; ++size) {  // never reads behind its bytes
    for (const std::string& bytes : {webp, jpeg}) {
      static_cast<void>(probe_image_head(std::string(bytes, 0, size), bytes.size()));
    }
  }
}

}  // namespace
}  // namespace overlord::media
