// What a decoder promises of bytes from anywhere: a Status, or a picture of the planned size; and
// of a JPEG, what libjpeg says of it.
// Needs codecs: JPEG PNG WEBP
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/check.h"
#include "overlord/media/image/codecs/jpeg_planes_test.h"
#include "overlord/media/image/image_chain.h"
#include "overlord/media/image/image_head.h"
#include "overlord/media/image/made_up_images_test.h"

namespace overlord::media {

// One of every kind that decoders tell apart, to change bytes of.
inline std::vector<std::string> good_pictures() {
  const Image image = photo(50, 40, 1);
  const Image wide = photo(50, 40, 2, 4);
  return {
      jpeg_of(image, {.quality = 50, .orientation = 6}),
      jpeg_of(image, {.quality = 50, .progressive = true}),
      jpeg_of(wide, {.quality = 50}),
      jpeg_of(image, {.quality = 95, .across = 1, .down = 1, .restart = 3, .optimised = true}),
      jpeg_of(photo(50, 40, 3, 1), {.quality = 80, .restart = 5}),
      png_of(image),
      png_of(wide),
      webp_of(image, false),
      webp_of(wide, true),
  };
}

// Small limits, so that a fuzzer looks at headers and codes rather than at many pixels.
inline void takes_picture(std::string_view bytes) {
  static const PreparedImageChain* const chains[] = {
      new PreparedImageChain(PreparedImageChain::prepare(
                                 parse_chain("decode jpeg=exact max_pixels=65536; orient").value())
                                 .value()),
      new PreparedImageChain(
          PreparedImageChain::prepare(
              parse_chain("decode jpeg=scaled max_pixels=65536; orient; resize width=9 height=7")
                  .value())
              .value())};
  static ChainScratch scratch;
  for (const PreparedImageChain* const chain : chains) {
    const auto outcome = chain->run(bytes, 1, scratch);
    if (!outcome.ok()) {
      OVERLORD_CHECK(!outcome.status().message().empty(), "a refusal without a reason");
      continue;
    }
    const auto planned = chain->planned_size(outcome->header);
    OVERLORD_CHECK(planned.ok() && planned->bytes() == outcome->bytes.size(),
                   "a picture of another size than planned");
  }
  BlobHead half{bytes.substr(0, bytes.size() / 2), bytes.size()};
  if (const auto need = image_probe_need(half); need.ok() && need->size_bytes > 0) {
    OVERLORD_CHECK(need->offset + need->size_bytes <= bytes.size(), "bytes that are not there");
    half.tail_offset = need->offset;
    half.tail = bytes.substr(need->offset, need->size_bytes);
  }
  const auto head = probe_image_head(half);
  OVERLORD_CHECK(head.ok() ? head->width > 0 && head->height > 0 : !head.status().message().empty(),
                 "a head without a size or a reason");
  const auto header = probe_image(bytes);
  if (!header.ok() || header->format != ImageFormat::kJpeg) return;
  for (const int32_t divisor : {1, 2, 4, 8}) {
    int64_t taken = 0;
    const std::string difference = difference_from_libjpeg(bytes, *header, divisor, &taken);
    OVERLORD_CHECK(difference.empty(), ("JPEG decoded in two ways: " + difference).c_str());
  }
}

}  // namespace overlord::media
