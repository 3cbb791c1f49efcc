// Pixels in memory: rows of 8-bit samples, channels interleaved. Image owns them and keeps its
// memory when it is shaped anew, so a scratch image stops allocating after the first few pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "overlord/base/fields.h"

namespace overlord::media {

constexpr int32_t kLargestSide = 65535;  // of a picture, in pixels

struct ImageSize {
  int32_t width = 0;
  int32_t height = 0;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
  OVERLORD_FIELDS(width, height)
};

inline std::string size_text(ImageSize size) {
  return std::to_string(size.width) + "x" + std::to_string(size.height);
}

// A rectangle of whole pixels.
struct ImageBox {
  int32_t left = 0;
  int32_t top = 0;
  int32_t width = 0;
  int32_t height = 0;

  friend bool operator==(const ImageBox&, const ImageBox&) = default;
};

struct ImageView {
  const uint8_t* data = nullptr;
  int32_t width = 0;
  int32_t height = 0;
  int32_t channels = 0;
  ptrdiff_t stride = 0;  // bytes from row to row

  const uint8_t* row(int32_t y) const { return data + y * stride; }
  ImageView part(const ImageBox& box) const {
    return {row(box.top) + static_cast<ptrdiff_t>(box.left) * channels, box.width, box.height,
            channels, stride};
  }
};

struct Image {
  int32_t width = 0;
  int32_t height = 0;
  int32_t channels = 0;
  std::vector<uint8_t> samples;

  // Contents are what they happen to be.
  void shape(int32_t new_width, int32_t new_height, int32_t new_channels) {
    width = new_width;
    height = new_height;
    channels = new_channels;
    const size_t wanted =
        static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels);
    if (samples.size() < wanted) samples.resize(wanted);
  }
  size_t size_bytes() const {
    return static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels);
  }
  ptrdiff_t stride() const { return static_cast<ptrdiff_t>(width) * channels; }
  uint8_t* row(int32_t y) { return samples.data() + y * stride(); }
  ImageView view() const { return {samples.data(), width, height, channels, stride()}; }
};

}  // namespace overlord::media
