// Needs codecs: JPEG PNG WEBP
#include "overlord/media/image/image_header.h"

#include <gtest/gtest.h>

#include "overlord/media/image/made_up_images_test.h"

namespace overlord::media {
namespace {

TEST(ImageHeader, TellsSizeAndKindOfEveryFormat) {
  const ImageHeader jpeg = probe_image(jpeg_of(photo(101, 67, 1), {.orientation = 6})).value();
  EXPECT_EQ(jpeg.format, ImageFormat::kJpeg);
  EXPECT_EQ(jpeg.width, 101);
  EXPECT_EQ(jpeg.height, 67);
  EXPECT_EQ(jpeg.orientation, 6);
  EXPECT_EQ(jpeg.upright_width(), 67);
  EXPECT_EQ(jpeg.scans, 1);
  const ImageHeader cmyk = probe_image(jpeg_of(photo(40, 30, 2, 4))).value();
  EXPECT_EQ(cmyk.colour, ImageColour::kCmyk);
  const ImageHeader png = probe_image(png_of(photo(55, 44, 3, 4))).value();
  EXPECT_EQ(png.format, ImageFormat::kPng);
  EXPECT_TRUE(png.alpha);
  EXPECT_EQ(png.channels, 4);
  for (const bool lossless : {false, true}) {
    const ImageHeader webp = probe_image(webp_of(photo(77, 33, 4), lossless)).value();
    EXPECT_EQ(webp.format, ImageFormat::kWebp);
    EXPECT_EQ(webp.width, 77);
    EXPECT_EQ(webp.height, 33);
  }
}

TEST(ImageHeader, CountsProgressiveScans) {
  const ImageHeader header = probe_image(jpeg_of(photo(64, 64, 5), {.progressive = true})).value();
  EXPECT_TRUE(header.progressive);
  EXPECT_EQ(header.scans, 10);  // libjpeg's simple progression of a colour picture
}

TEST(ImageHeader, NamesWhatIsNoPicture) {
  const auto message = [](std::string_view bytes) { return probe_image(bytes).status().message(); };
  EXPECT_NE(message("").find("empty"), std::string::npos);
  EXPECT_NE(message("GIF89a......").find("GIF"), std::string::npos);
  EXPECT_NE(message("BM..........").find("BMP"), std::string::npos);
  EXPECT_NE(message("<html><body>404").find("HTML"), std::string::npos);
  EXPECT_NE(message("\x01\x02\x03").find("unknown format"), std::string::npos);
}

TEST(ImageHeader, EveryCutOfTheHeaderIsAStatus) {
  for (const std::string& whole :
       {jpeg_of(photo(64, 48, 6)), png_of(photo(64, 48, 6)), webp_of(photo(64, 48, 6), false)}) {
    const ImageHeader header = probe_image(whole).value();
    for (size_t size = 0; size < std::min<size_t>(whole.size(), 700); ++size) {
      const Result<ImageHeader> cut = probe_image(std::string_view(whole).substr(0, size));
      // What is left may already hold the header, and then says the same.
      if (cut.ok()) {
        EXPECT_EQ(cut->width, header.width);
      }
    }
  }
}

TEST(ImageHeader, RefusesSizesOfNothing) {
  std::string jpeg = jpeg_of(photo(64, 48, 7));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg[frame + 5] = jpeg[frame + 6] = '\0';
  EXPECT_NE(probe_image(jpeg).status().message().find("64x0"), std::string::npos);
  std::string png = png_of(photo(64, 48, 7));
  png[19] = '\0';
  EXPECT_FALSE(probe_image(png).ok());
}

}  // namespace
}  // namespace overlord::media
