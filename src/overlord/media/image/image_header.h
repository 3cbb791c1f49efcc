// What a picture says of itself: format, size, colours, orientation, frames and scans, read from
// its headers without decoding a pixel. The planner sizes samples by it and the decoders check
// their limits against it before they allocate. Every lie and every cut that headers can show is a
// Status that names what was found and at which byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "overlord/base/fields.h"
#include "overlord/base/status.h"

namespace overlord::media {

enum class ImageFormat : uint8_t { kJpeg, kPng, kWebp };

enum class ImageColour : uint8_t { kGrey, kColour, kPalette, kCmyk };

struct ImageHeader {
  ImageFormat format = ImageFormat::kJpeg;
  int32_t width = 0;  // as stored; orientations 5 to 8 turn it by a right angle
  int32_t height = 0;
  ImageColour colour = ImageColour::kColour;
  int32_t channels = 3;  // as stored: palette 1, alpha counted
  int32_t bit_depth = 8;
  bool alpha = false;       // has transparency, be it a channel, a palette's or a colour key
  int32_t orientation = 1;  // EXIF, 1 to 8; 1 where there is none or it makes no sense
  int32_t frames = 1;       // more than one: animated
  bool progressive = false;
  int32_t scans = 1;  // JPEG: scans in the file, counted by their markers

  friend bool operator==(const ImageHeader&, const ImageHeader&) = default;

  OVERLORD_FIELDS(format, width, height, colour, channels, bit_depth, alpha, orientation, frames,
                  progressive, scans)

  // Size as seen once the orientation is applied.
  int32_t upright_width() const { return orientation >= 5 ? height : width; }
  int32_t upright_height() const { return orientation >= 5 ? width : height; }
};

// The format by content, never by file name. GIF, BMP, TIFF, HTML and empty input are named in the
// message.
Result<ImageFormat> image_format(std::string_view bytes);

Result<ImageHeader> probe_image(std::string_view bytes);

// One per format; `bytes` start with the format's signature.
Result<ImageHeader> probe_jpeg(std::string_view bytes);
Result<ImageHeader> probe_png(std::string_view bytes);
Result<ImageHeader> probe_webp(std::string_view bytes);

}  // namespace overlord::media
