// Needs codecs: JPEG PNG WEBP
#include "overlord/media/image/image_chain.h"

#include <gtest/gtest.h>

#include <cstring>

#include "overlord/media/image/made_up_images_test.h"
#include "overlord/media/mrope.h"

namespace overlord::media {
namespace {

PreparedImageChain chain_of(std::string_view text) {
  Result<ImageChain> chain = parse_chain(text);
  EXPECT_TRUE(chain.ok()) << chain.status().message();
  Result<PreparedImageChain> prepared = PreparedImageChain::prepare(*chain);
  EXPECT_TRUE(prepared.ok()) << prepared.status().message();
  return *prepared;
}

// A chain with random steps in a legal order.
std::string random_chain(uint64_t seed) {
  uint64_t n = 0;
  const auto draw = [&](uint64_t below) { return uniform_below(seed, 77, n++, below); };
  const char* const filters[] = {"bilinear", "bicubic", "lanczos"};
  std::string text = draw(2) ? "decode jpeg=scaled" : "decode jpeg=exact";
  if (draw(2)) text += "; orient";
  const std::string filter = std::string(" filter=") + filters[draw(3)];
  bool patches = false;
  switch (draw(6)) {
    case 0:
      text += "; resize_short side=40" + filter + "; centre_crop width=30 height=28";
      break;
    case 1:
      text += "; random_resized_crop width=28 height=56" + filter + "; random_flip";
      break;
    case 2:
      text += "; smart_resize factor=28 min_pixels=3136 max_pixels=20000" + filter;
      patches = true;
      break;
    case 3:
      text += "; aspect_bucket buckets=56x56,84x56,56x84" + filter;
      patches = true;
      break;
    case 4:
      text += "; random_flip; tile size=28 most=6" + filter;
      patches = true;
      break;
    default:
      text +=
          "; resize width=50 height=60" + filter + "; random_crop width=20 height=21; random_flip";
      break;
  }
  if (draw(3) == 0) text += "; grey";
  if (draw(2)) text += "; normalise mean=0.5,0.4,0.3 std=0.2,0.3,0.4";
  if (patches && draw(2)) text += draw(2) ? "; patchify" : "; patchify layout=vit";
  return text;
}

TEST(ImageChain, WhatIsPlannedFromTheHeaderIsWhatDecodingYields) {
  ChainScratch scratch;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto side = [&](uint64_t n) {
      return static_cast<int32_t>(30 + uniform_below(seed, 5, n, 170));
    };
    const Image image = photo(side(0), side(1), seed);
    const std::string bytes = seed % 4 == 0 ? png_of(image)
                              : seed % 4 == 1
                                  ? webp_of(image, false)
                                  : jpeg_of(image, {.across = 1 + static_cast<int>(seed / 4 % 2),
                                                    .orientation = static_cast<int>(seed % 9)});
    const std::string text = random_chain(seed);
    const PreparedImageChain chain = chain_of(text);
    const ImageHeader header = probe_image(bytes).value();
    const Result<ImageGeometry> planned = chain.planned_size(header);
    ASSERT_TRUE(planned.ok()) << text << planned.status().message();
    std::vector<uint8_t> first;
    for (const uint64_t key : {seed, seed, seed + 1}) {
      const auto outcome = chain.run(bytes, key, scratch);
      ASSERT_TRUE(outcome.ok()) << text << outcome.status().message();
      EXPECT_EQ(outcome->geometry, *planned) << text;
      EXPECT_EQ(outcome->bytes.size(), planned->bytes());
      if (key == seed && !first.empty()) {
        EXPECT_EQ(first, outcome->bytes) << "not a function of bytes and key: " << text;
      }
      if (key == seed) first = outcome->bytes;
    }
    // The scratch carries nothing over.
    ChainScratch fresh;
    EXPECT_EQ(chain.run(bytes, seed, fresh)->bytes, first) << text;
  }
}

TEST(ImageChain, TextSaysTheChainAndBack) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const ImageChain chain = parse_chain(random_chain(seed)).value();
    const Result<ImageChain> again = parse_chain(chain_text(chain));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, chain) << chain_text(chain);
  }
}

TEST(ImageChain, RefusesWhatMakesNoSense) {
  const auto message = [](std::string_view text) {
    const Result<ImageChain> chain = parse_chain(text);
    if (!chain.ok()) return chain.status().message();
    return PreparedImageChain::prepare(*chain).status().message();
  };
  EXPECT_NE(message("resise width=3").find("no step is called"), std::string::npos);
  EXPECT_NE(message("resize widht=3").find("width, height, filter"), std::string::npos);
  EXPECT_NE(message("resize width=3").find("height must be 1"), std::string::npos);
  EXPECT_NE(message("resize width=3 height=3 filter=area").find("bilinear"), std::string::npos);
  EXPECT_NE(message("normalise; resize width=3 height=3").find("too late"), std::string::npos);
  EXPECT_NE(message("patchify; normalise").find("follow patchify"), std::string::npos);
  EXPECT_NE(message("normalise std=0,1,1").find("above 0"), std::string::npos);
}

TEST(ImageChain, PatchRowsLieAsTheModelsReadThem) {
  // Level = x + 10 * y names every pixel of an 8 x 8 picture.
  Image image;
  image.shape(8, 8, 3);
  for (int32_t y = 0; y < 8; ++y) {
    for (int32_t x = 0; x < 8; ++x) {
      for (int32_t c = 0; c < 3; ++c)
        image.row(y)[3 * x + c] = static_cast<uint8_t>(x + 10 * y + 80 * c);
    }
  }
  ChainScratch scratch;
  const auto qwen =
      chain_of("patchify patch=2 temporal=2 merge=2").run(png_of(image), 0, scratch).value();
  ASSERT_EQ(qwen.geometry.patches, 16);
  EXPECT_EQ(qwen.geometry.tokens, 4);
  EXPECT_EQ(qwen.geometry.row_values, 24);
  // Rows 0 to 3 are the first block of 2 x 2 patches; row 2 starts at pixel (0, 2).
  EXPECT_EQ(qwen.bytes[2 * 24], 20);
  EXPECT_EQ(qwen.bytes[4 * 24], 4);  // the second block, to the right
  // In a row: channel, frame, y, x.
  const std::vector<uint8_t> first(qwen.bytes.begin(), qwen.bytes.begin() + 12);
  EXPECT_EQ(first, (std::vector<uint8_t>{0, 1, 10, 11, 0, 1, 10, 11, 80, 81, 90, 91}));
  const auto vit = chain_of("patchify layout=vit patch=4").run(png_of(image), 0, scratch).value();
  EXPECT_EQ(vit.geometry.patches, 4);
  EXPECT_EQ(vit.bytes[48], 4);
  EXPECT_EQ(vit.bytes[16], 80);
}

TEST(ImageTransforms, SmartResizeFollowsItsReference) {
  // (height, width) -> (height, width) of transformers' smart_resize with its defaults.
  const auto size = [](int32_t height, int32_t width) {
    return smart_resize({width, height}, {}).value();
  };
  EXPECT_EQ(size(480, 640), (ImageSize{644, 476}));
  EXPECT_EQ(size(1080, 1920), (ImageSize{1316, 728}));
  EXPECT_EQ(size(20, 30), (ImageSize{84, 56}));
  EXPECT_EQ(size(42, 70), (ImageSize{56, 56}));  // halves go to the even multiple
  EXPECT_EQ(size(10, 300), (ImageSize{308, 28}));
  EXPECT_EQ(size(3000, 4000), (ImageSize{1148, 840}));
  EXPECT_EQ(size(14, 2800), (ImageSize{812, 28}));
  EXPECT_EQ(size(999, 1001), (ImageSize{980, 980}));
  EXPECT_FALSE(smart_resize({4000, 10}, {}).ok());
}

TEST(Resize, ConstantPicturesStayConstantAndWeightsAddUp) {
  for (const ResizeFilter filter :
       {ResizeFilter::kBilinear, ResizeFilter::kBicubic, ResizeFilter::kLanczos}) {
    for (const auto& [from, to] : {std::pair(1, 7), {300, 224}, {224, 300}, {5000, 3}, {64, 64}}) {
      ResizeWeights weights;
      make_weights(ResizeAxis::whole(from, to), filter, &weights);
      for (size_t i = 0; i < weights.starts.size(); ++i) {
        int64_t sum = 0;
        for (int32_t k = 0; k < weights.taps[i]; ++k) {
          sum += weights.weights[i * static_cast<size_t>(weights.stride) + static_cast<size_t>(k)];
        }
        EXPECT_EQ(sum, int64_t{1} << ResizeWeights::kBits);
        EXPECT_GE(weights.starts[i], 0);
        EXPECT_LE(weights.starts[i] + weights.taps[i], from);
      }
    }
  }
}

TEST(Resize, APartIsThePartOfTheWhole) {
  const Image image = photo(131, 97, 9);
  ResizeScratch scratch;
  Image whole;
  whole.shape(60, 50, 3);
  const ResizeAxis across = ResizeAxis::whole(131, 60);
  const ResizeAxis down = ResizeAxis::whole(97, 50);
  resize(image.view(), across, down, ResizeFilter::kLanczos, scratch, whole.row(0), whole.stride());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const ImageBox box = random_box({60, 50}, {17, 11}, seed);
    ResizeAxis some_across = across;
    some_across.first = box.left;
    some_across.count = box.width;
    ResizeAxis some_down = down;
    some_down.first = box.top;
    some_down.count = box.height;
    Image part;
    part.shape(17, 11, 3);
    resize(image.view(), some_across, some_down, ResizeFilter::kLanczos, scratch, part.row(0),
           part.stride());
    for (int32_t y = 0; y < 11; ++y) {
      EXPECT_EQ(0, std::memcmp(part.row(y), whole.row(box.top + y) + box.left * 3, 17 * 3));
    }
  }
}

TEST(Mrope, TextGoesOnBehindThePicture) {
  std::vector<int32_t> t(9);
  std::vector<int32_t> h(9);
  std::vector<int32_t> w(9);
  const MropeSpan span{2, 1, 2, 2, 1};
  EXPECT_EQ(mrope_positions({&span, 1}, t, h, w).value(), 7);
  EXPECT_EQ(t, (std::vector<int32_t>{0, 1, 2, 2, 2, 2, 4, 5, 6}));
  EXPECT_EQ(h, (std::vector<int32_t>{0, 1, 2, 2, 3, 3, 4, 5, 6}));
  EXPECT_EQ(w, (std::vector<int32_t>{0, 1, 2, 3, 2, 3, 4, 5, 6}));
  const MropeSpan beyond{6, 1, 2, 2, 1};
  EXPECT_FALSE(mrope_positions({&beyond, 1}, t, h, w).ok());
}

}  // namespace
}  // namespace overlord::media
