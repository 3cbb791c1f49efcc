#include "overlord/media/image/patchify.h"

#include <cstring>
#include <string>
#include <type_traits>

#include "overlord/media/step_values.h"

namespace overlord::media {
namespace {

struct AsLevels {
  using Value = uint8_t;
  uint8_t operator()(int32_t, uint8_t level) const { return level; }
};

struct AsFloats {
  using Value = float;
  const NormaliseTable& table;
  float operator()(int32_t channel, uint8_t level) const {
    return table[static_cast<size_t>(channel)][level];
  }
};

template <typename Convert>
void lay_planes(const ImageView& image, const Convert& convert, typename Convert::Value* out) {
  for (int32_t c = 0; c < image.channels; ++c) {
    for (int32_t y = 0; y < image.height; ++y) {
      const uint8_t* const from = image.row(y) + c;
      for (int32_t x = 0; x < image.width; ++x) {
        *out++ = convert(c, from[static_cast<ptrdiff_t>(x) * image.channels]);
      }
    }
  }
}

template <typename Convert>
void lay_rows(const ImageView& image, const Convert& convert, typename Convert::Value* out) {
  const size_t across = static_cast<size_t>(image.width) * static_cast<size_t>(image.channels);
  for (int32_t y = 0; y < image.height; ++y, out += across) {
    const uint8_t* from = image.row(y);
    if constexpr (std::is_same_v<Convert, AsLevels>) {
      std::memcpy(out, from, across);
    } else {
      auto* to = out;
      for (int32_t x = 0; x < image.width; ++x) {
        for (int32_t c = 0; c < image.channels; ++c) *to++ = convert(c, *from++);
      }
    }
  }
}

// One patch whose top left pixel is `from`.
template <typename Convert>
typename Convert::Value* lay_patch(const ImageView& image, const uint8_t* from,
                                   const Patchify& rule, const Convert& convert,
                                   typename Convert::Value* out) {
  const int32_t channels = image.channels;
  const ptrdiff_t plane = static_cast<ptrdiff_t>(rule.patch) * rule.patch;
  if (rule.layout == PatchLayout::kVitLast) {
    for (int32_t y = 0; y < rule.patch; ++y, from += image.stride) {
      for (int32_t x = 0; x < rule.patch; ++x) {
        for (int32_t c = 0; c < channels; ++c) *out++ = convert(c, from[x * channels + c]);
      }
    }
    return out;
  }
  for (int32_t c = 0; c < channels; ++c) {
    auto* const first = out;
    for (int32_t y = 0; y < rule.patch; ++y) {
      const uint8_t* const row = from + y * image.stride + c;
      for (int32_t x = 0; x < rule.patch; ++x) *out++ = convert(c, row[x * channels]);
    }
    for (int32_t t = 1; t < rule.temporal; ++t, out += plane) {
      std::memcpy(out, first, static_cast<size_t>(plane) * sizeof(*out));
    }
  }
  return out;
}

// One frame of a patch that spans several: its place in each channel's run of frames.
template <typename Convert>
typename Convert::Value* lay_frame(const ImageView& image, const uint8_t* from,
                                   const Patchify& rule, const Convert& convert, int32_t frame,
                                   typename Convert::Value* out) {
  const int32_t channels = image.channels;
  const ptrdiff_t plane = static_cast<ptrdiff_t>(rule.patch) * rule.patch;
  for (int32_t c = 0; c < channels; ++c, out += plane * rule.temporal) {
    auto* to = out + plane * frame;
    for (int32_t y = 0; y < rule.patch; ++y) {
      const uint8_t* const row = from + y * image.stride + c;
      for (int32_t x = 0; x < rule.patch; ++x) *to++ = convert(c, row[x * channels]);
    }
  }
  return out;
}

// `lay` puts one patch, whose top left pixel it gets, and says where the next one goes.
template <typename Value, typename Lay>
void walk_patches(const ImageView& image, const Patchify& rule, const Lay& lay, Value* out) {
  const int32_t block = rule.patch * rule.merge;
  for (int32_t top = 0; top < image.height; top += block) {
    for (int32_t left = 0; left < image.width; left += block) {
      for (int32_t down = 0; down < block; down += rule.patch) {
        for (int32_t across = 0; across < block; across += rule.patch) {
          const uint8_t* const from =
              image.row(top + down) + static_cast<ptrdiff_t>(left + across) * image.channels;
          out = lay(from, out);
        }
      }
    }
  }
}

template <typename Convert>
void lay_patches(const ImageView& image, const Patchify& rule, const Convert& convert,
                 typename Convert::Value* out) {
  const auto lay = [&](const uint8_t* from, typename Convert::Value* to) {
    return lay_patch(image, from, rule, convert, to);
  };
  walk_patches(image, rule, lay, out);
}

template <typename Convert>
void lay_frames(const ImageView& image, const Patchify& rule, const Convert& convert, int32_t frame,
                typename Convert::Value* out) {
  const auto lay = [&](const uint8_t* from, typename Convert::Value* to) {
    return lay_frame(image, from, rule, convert, frame, to);
  };
  walk_patches(image, rule, lay, out);
}

template <typename Convert>
void write_as(const ImageView& image, const PixelForm& form, std::optional<int32_t> frame,
              const Convert& convert, typename Convert::Value* out) {
  if (form.patchify == nullptr && form.planes) return lay_planes(image, convert, out);
  if (form.patchify == nullptr) return lay_rows(image, convert, out);
  if (!frame) return lay_patches(image, *form.patchify, convert, out);
  lay_frames(image, *form.patchify, convert, *frame, out);
}

}  // namespace

NormaliseTable normalise_table(const Normalise& rule) {
  NormaliseTable table = {};
  for (size_t c = 0; c < 3; ++c) {
    for (size_t level = 0; level < 256; ++level) {
      if (rule.order == NormaliseOrder::kRescaleFirst) {
        const auto rescaled = static_cast<float>(static_cast<double>(level) * (1.0 / 255.0));
        table[c][level] = (rescaled - rule.mean[c]) / rule.std[c];
      } else {
        table[c][level] =
            (static_cast<float>(level) - rule.mean[c] * 255.0F) / (rule.std[c] * 255.0F);
      }
    }
  }
  return table;
}

Status check_values(const Normalise& rule) {
  for (const float std : rule.std) {
    if (!(std > 0.0F)) return invalid_argument("std must be above 0; got " + std::to_string(std));
  }
  return {};
}

Status check_values(const Patchify& rule) {
  const int64_t most = rule.layout == PatchLayout::kQwen2vl ? 16 : 1;
  OVERLORD_RETURN_IF_ERROR(within("patch", rule.patch, 1, 1024));
  OVERLORD_RETURN_IF_ERROR(within("temporal", rule.temporal, 1, most));
  return within("merge", rule.merge, 1, most);
}

Status check_patches(ImageSize size, const Patchify& rule) {
  const int32_t block = rule.patch * rule.merge;
  if (size.width % block == 0 && size.height % block == 0) return {};
  return invalid_argument("patchify: a picture of " + std::to_string(size.width) + "x" +
                          std::to_string(size.height) + " is no whole number of " +
                          std::to_string(block) +
                          "-pixel patches; resize or crop to a multiple, or use smart_resize");
}

void write_pixels(const ImageView& image, const PixelForm& form, std::optional<int32_t> frame,
                  uint8_t* out) {
  if (form.table != nullptr) {
    write_as(image, form, frame, AsFloats{*form.table}, reinterpret_cast<float*>(out));
  } else {
    write_as(image, form, frame, AsLevels{}, out);
  }
}

}  // namespace overlord::media
