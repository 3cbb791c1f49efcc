#include "overlord/media/image_head.h"

#include "overlord/media/byte_view.h"

namespace overlord::media {
namespace {

constexpr size_t kRiffBytes = 12;

// Of a WebP only the first chunk: it has the size in all three kinds of file.
Result<ImageHeader> webp_head(std::string_view head, uint64_t size_bytes) {
  ImageHeader header;
  header.format = ImageFormat::kWebp;
  const uint64_t declared = uint64_t{little_u32(head, 4)} + 8;
  if (declared > size_bytes) {
    return bad_data("WebP is cut: it declares " + std::to_string(declared) + " bytes and has " +
                    std::to_string(size_bytes));
  }
  if (!holds(head, kRiffBytes, 18)) return bad_data("WebP holds no picture");
  const std::string_view name = head.substr(kRiffBytes, 4);
  const std::string_view chunk = head.substr(kRiffBytes + 8);
  if (name == "VP8X") {
    header.alpha = (byte_at(chunk, 0) & 0x10) != 0;
    header.width = static_cast<int32_t>(little_u24(chunk, 4)) + 1;
    header.height = static_cast<int32_t>(little_u24(chunk, 7)) + 1;
  } else if (name == "VP8L") {
    const uint32_t bits = little_u32(chunk, 1);
    header.width = static_cast<int32_t>(bits & 0x3FFF) + 1;
    header.height = static_cast<int32_t>(bits >> 14 & 0x3FFF) + 1;
  } else if (name == "VP8 ") {
    header.width = static_cast<int32_t>(little_u16(chunk, 6) & 0x3FFF);
    header.height = static_cast<int32_t>(little_u16(chunk, 8) & 0x3FFF);
  } else {
    return bad_data("WebP does not begin with a picture");
  }
  if (header.width == 0 || header.height == 0) return bad_data("WebP declares no pixels");
  return header;
}

}  // namespace

Result<ImageHeader> probe_image_head(std::string_view head, uint64_t size_bytes) {
  if (head.size() >= size_bytes) return probe_image(head);
  OVERLORD_TRY(const ImageFormat format, image_format(head));
  if (format == ImageFormat::kWebp) return webp_head(head, size_bytes);
  Result<ImageHeader> header = probe_image(head);
  if (header.ok()) return header;
  return header.status().with_context("in its first " + std::to_string(head.size()) + " of " +
                                      std::to_string(size_bytes) + " bytes");
}

}  // namespace overlord::media
