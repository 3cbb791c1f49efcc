#include "overlord/media/image/image_head.h"

#include <algorithm>

#include "overlord/media/byte_view.h"
#include "overlord/media/image/codecs/exif.h"
#include "overlord/media/refusals.h"

namespace overlord::media {
namespace {

constexpr size_t kRiffBytes = 12;
constexpr size_t kChunkHead = 8;
constexpr uint32_t kHasExif = 0x08;  // a flag of VP8X

bool has_exif(std::string_view head) {
  return holds(head, kRiffBytes, 18) && head.substr(kRiffBytes, 4) == "VP8X" &&
         (byte_at(head, kRiffBytes + kChunkHead) & kHasExif) != 0;
}

// Where the chunk `name` of a WebP begins, or the first one whose begin is not there, or the end.
uint64_t find_chunk(const BlobHead& blob, std::string_view name) {
  uint64_t at = kRiffBytes;
  while (at < blob.size_bytes) {
    const std::string_view chunk = blob.at(at, kChunkHead);
    if (chunk.empty() || chunk.starts_with(name)) break;
    const uint64_t size = little_u32(chunk, 4);
    at += kChunkHead + size + size % 2;
  }
  return std::min(at, blob.size_bytes);
}

int32_t webp_orientation(const BlobHead& blob) {
  const uint64_t at = find_chunk(blob, "EXIF");
  const std::string_view chunk = blob.at(at, kChunkHead);
  if (!chunk.starts_with("EXIF")) return 1;
  return exif_orientation(blob.at(at + kChunkHead, little_u32(chunk, 4)));
}

// Of a WebP the first chunk, which has the size in all three kinds of file, and EXIF.
Result<ImageHeader> webp_head(const BlobHead& blob) {
  const std::string_view head = blob.head;
  const uint64_t size_bytes = blob.size_bytes;
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
  if (has_exif(head)) header.orientation = webp_orientation(blob);
  return header;
}

}  // namespace

Result<BlobNeed> image_probe_need(const BlobHead& blob) {
  OVERLORD_TRY(const ImageFormat format, image_format(blob.head));
  if (format != ImageFormat::kWebp || !has_exif(blob.head)) return BlobNeed{};
  const uint64_t at = find_chunk(blob, "EXIF");
  return BlobNeed{at, blob.size_bytes - at};
}

Result<ImageHeader> probe_image_head(const BlobHead& blob) {
  if (blob.whole()) return probe_image(blob.head);
  OVERLORD_TRY(const ImageFormat format, image_format(blob.head));
  if (format == ImageFormat::kWebp) return webp_head(blob);
  Result<ImageHeader> header = probe_image(blob.head);
  return header.ok() ? header : in_head(header.status(), blob);
}

}  // namespace overlord::media
