// Pictures for tests: smooth photo-like ones with some detail, encoded with the libraries that
// decode them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#ifdef OVERLORD_HAS_JPEG
// jpeglib.h wants cstdio before it.
#include <jpeglib.h>
#endif
#ifdef OVERLORD_HAS_PNG
#include <spng.h>
#endif
#ifdef OVERLORD_HAS_WEBP
#include <webp/encode.h>
#endif

#include "overlord/base/check.h"
#include "overlord/base/rng.h"
#include "overlord/media/image/image.h"

namespace overlord::media {

// Every sample by chance: blocks full of large coefficients.
inline Image noise(int32_t width, int32_t height, uint64_t seed, int32_t channels = 3) {
  Image image;
  image.shape(width, height, channels);
  for (size_t i = 0; i < image.size_bytes(); ++i) {
    image.samples[i] = static_cast<uint8_t>(random_u64(seed, i, 0));
  }
  return image;
}

// Waves, a few hard edges and a little noise; the same for the same seed.
inline Image photo(int32_t width, int32_t height, uint64_t seed, int32_t channels = 3) {
  Image image;
  image.shape(width, height, channels);
  for (int32_t y = 0; y < height; ++y) {
    for (int32_t x = 0; x < width; ++x) {
      for (int32_t c = 0; c < channels; ++c) {
        const auto wave = [&](int32_t at, uint64_t n) {
          const auto period =
              static_cast<int32_t>(24 + random_u64(seed, n, static_cast<uint64_t>(c)) % 90);
          return std::abs(at % (2 * period) - period) * 100 / period;
        };
        int32_t level = wave(x + c * 7, 1) + wave(y, 2) + wave(x + y, 3) / 2;
        if ((x / 37 + y / 29) % 7 == 3) level = 255 - level;
        level += static_cast<int32_t>(
            random_u64(seed, static_cast<uint64_t>(x), static_cast<uint64_t>(y)) % 9);
        image.row(y)[x * channels + c] = static_cast<uint8_t>(std::clamp(level, 0, 255));
      }
    }
  }
  return image;
}

struct JpegShape {
  int quality = 90;
  int across = 2;  // luma samples per chroma sample
  int down = 2;
  bool progressive = false;
  int orientation = 0;     // 0: no EXIF
  int restart = 0;         // MCUs between restart markers; 0: none
  bool optimised = false;  // Huffman tables made for the picture
  bool jfif = true;
  bool adobe = false;
};

inline std::string exif_block(int orientation) {
  std::string tiff("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", 19);
  tiff.push_back(static_cast<char>(orientation));
  return tiff + std::string(6, '\0');
}

#ifdef OVERLORD_HAS_JPEG
inline std::string jpeg_of(const Image& image, const JpegShape& shape = {}) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr errors = {};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = image.channels;
  info.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                        : image.channels == 3 ? JCS_RGB
                                              : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, shape.quality, TRUE);
  if (image.channels == 3) {
    info.comp_info[0].h_samp_factor = shape.across;
    info.comp_info[0].v_samp_factor = shape.down;
  }
  info.restart_interval = static_cast<unsigned>(shape.restart);
  info.optimize_coding = shape.optimised ? TRUE : FALSE;
  info.write_JFIF_header = shape.jfif ? TRUE : FALSE;
  info.write_Adobe_marker = shape.adobe ? TRUE : FALSE;
  if (shape.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (shape.orientation > 0) {
    const std::string exif = std::string("Exif\0\0", 6) + exif_block(shape.orientation);
    jpeg_write_marker(&info, 0xE1, reinterpret_cast<const JOCTET*>(exif.data()),
                      static_cast<unsigned>(exif.size()));
  }
  Image copy = image;
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = copy.row(static_cast<int32_t>(info.next_scanline));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string bytes(reinterpret_cast<char*>(data), size);
  std::free(data);
  jpeg_destroy_compress(&info);
  return bytes;
}
#endif

#ifdef OVERLORD_HAS_PNG
inline std::string png_of(const Image& image) {
  spng_ctx* context = spng_ctx_new(SPNG_CTX_ENCODER);
  spng_set_option(context, SPNG_ENCODE_TO_BUFFER, 1);
  spng_ihdr first = {};
  first.width = static_cast<uint32_t>(image.width);
  first.height = static_cast<uint32_t>(image.height);
  first.bit_depth = 8;
  first.color_type = image.channels == 1   ? SPNG_COLOR_TYPE_GRAYSCALE
                     : image.channels == 3 ? SPNG_COLOR_TYPE_TRUECOLOR
                                           : SPNG_COLOR_TYPE_TRUECOLOR_ALPHA;
  spng_set_ihdr(context, &first);
  OVERLORD_CHECK(spng_encode_image(context, image.samples.data(), image.size_bytes(), SPNG_FMT_PNG,
                                   SPNG_ENCODE_FINALIZE) == 0,
                 "PNG encoder of the tests");
  size_t size = 0;
  int error = 0;
  void* data = spng_get_png_buffer(context, &size, &error);
  std::string bytes(static_cast<char*>(data), size);
  std::free(data);
  spng_ctx_free(context);
  return bytes;
}
#endif

#ifdef OVERLORD_HAS_WEBP
inline std::string webp_of(const Image& image, bool lossless) {
  uint8_t* data = nullptr;
  const int stride = static_cast<int>(image.stride());
  const uint8_t* from = image.samples.data();
  size_t size = 0;
  if (image.channels == 4) {
    size = lossless ? WebPEncodeLosslessRGBA(from, image.width, image.height, stride, &data)
                    : WebPEncodeRGBA(from, image.width, image.height, stride, 90.0F, &data);
  } else {
    size = lossless ? WebPEncodeLosslessRGB(from, image.width, image.height, stride, &data)
                    : WebPEncodeRGB(from, image.width, image.height, stride, 90.0F, &data);
  }
  std::string bytes(reinterpret_cast<char*>(data), size);
  WebPFree(data);
  return bytes;
}
#endif

}  // namespace overlord::media
