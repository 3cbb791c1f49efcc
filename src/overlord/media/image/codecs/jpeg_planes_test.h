// Our own JPEG decoder held against libjpeg: the same verdict and the same samples for all bytes.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "overlord/base/check.h"
#include "overlord/media/image/codecs/jpeg_baseline.h"

namespace overlord::media {

// Where the planes differ, or "".
inline std::string difference_of(const JpegPlanes& a, const JpegPlanes& b) {
  if (a.count != b.count) return "number of planes";
  for (int32_t c = 0; c < a.count; ++c) {
    const Plane& one = a.planes[static_cast<size_t>(c)];
    const Plane& two = b.planes[static_cast<size_t>(c)];
    if (one.width != two.width || one.height != two.height || one.across != two.across ||
        one.across_per != two.across_per || one.down != two.down || one.down_per != two.down_per) {
      return "shape of plane " + std::to_string(c);
    }
    for (int32_t y = 0; y < one.height; ++y) {
      if (std::memcmp(one.data + y * one.stride, two.data + y * two.stride,
                      static_cast<size_t>(one.width)) != 0) {
        return "row " + std::to_string(y) + " of plane " + std::to_string(c);
      }
    }
  }
  return "";
}

// Decodes with and without our own decoder; what differs, or "". `taken` counts the files that it
// takes.
inline std::string difference_from_libjpeg(std::string_view bytes, const ImageHeader& header,
                                           int32_t divisor, int64_t* taken) {
  static DecodeScratch ours;
  static DecodeScratch theirs;
  theirs.only_libjpeg = true;
  const ImageLimits limits = {.pixels = 65536};
  JpegPlanes one;
  JpegPlanes two;
  const Status status = decode_jpeg_planes(bytes, header, limits, divisor, ours, &one);
  const Status expected = decode_jpeg_planes(bytes, header, limits, divisor, theirs, &two);
  if (status.code() != expected.code() || status.message() != expected.message())
    return "verdict " + status.message() + " for " + expected.message();
  if (!status.ok()) return "";
  JpegPlanes again;
  *taken += decode_baseline_planes(bytes, header, divisor, ours, &again) ? 1 : 0;
  return difference_of(one, two);
}

}  // namespace overlord::media
