// Header of PNG: the chunk table. Pixel chunks are stepped over by their lengths.
#include <algorithm>

#include "overlord/media/byte_view.h"
#include "overlord/media/image/codecs/exif.h"
#include "overlord/media/image/image_header.h"

namespace overlord::media {
namespace {

constexpr size_t kSignatureBytes = 8;
constexpr size_t kChunkFrame = 12;  // length, name and checksum
constexpr uint32_t kLargestValue = 0x7FFFFFFF;

Status bad_png(const std::string& what, size_t offset) {
  return bad_data("PNG " + what + " (at byte " + std::to_string(offset) + ")");
}

bool depth_fits(uint32_t colour_type, uint32_t depth) {
  switch (colour_type) {
    case 0:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case 3:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case 2:
    case 4:
    case 6:
      return depth == 8 || depth == 16;
    default:
      return false;
  }
}

Status read_first_chunk(std::string_view chunk, size_t offset, ImageHeader* header) {
  const uint32_t width = big_u32(chunk, 0);
  const uint32_t height = big_u32(chunk, 4);
  const uint32_t depth = byte_at(chunk, 8);
  const uint32_t type = byte_at(chunk, 9);
  if (width == 0 || height == 0 || width > kLargestValue || height > kLargestValue) {
    return bad_png("declares " + std::to_string(width) + "x" + std::to_string(height) + " pixels",
                   offset);
  }
  if (!depth_fits(type, depth)) {
    return bad_png("has colour type " + std::to_string(type) + " with " + std::to_string(depth) +
                       " bits, which does not exist",
                   offset);
  }
  if (byte_at(chunk, 10) != 0 || byte_at(chunk, 11) != 0 || byte_at(chunk, 12) > 1) {
    return bad_png("names an unknown compression, filter or interlace method", offset);
  }
  header->width = static_cast<int32_t>(width);
  header->height = static_cast<int32_t>(height);
  header->bit_depth = static_cast<int32_t>(depth);
  header->progressive = byte_at(chunk, 12) == 1;
  header->alpha = type == 4 || type == 6;
  header->colour = type == 3                ? ImageColour::kPalette
                   : type == 0 || type == 4 ? ImageColour::kGrey
                                            : ImageColour::kColour;
  header->channels = (header->colour == ImageColour::kColour ? 3 : 1) + (header->alpha ? 1 : 0);
  return {};
}

}  // namespace

Result<ImageHeader> probe_png(std::string_view bytes) {
  ImageHeader header;
  header.format = ImageFormat::kPng;
  if (!holds(bytes, kSignatureBytes, 25) || bytes.substr(12, 4) != "IHDR" ||
      big_u32(bytes, kSignatureBytes) != 13) {
    return bad_png("has no whole IHDR chunk at its start", kSignatureBytes);
  }
  OVERLORD_RETURN_IF_ERROR(read_first_chunk(bytes.substr(16, 13), 16, &header));
  bool pixels_seen = false;
  size_t at = kSignatureBytes + kChunkFrame + 13;
  while (holds(bytes, at, 8)) {
    const size_t size = big_u32(bytes, at);
    const std::string_view name = bytes.substr(at + 4, 4);
    if (size > kLargestValue || !holds(bytes, at, size + kChunkFrame)) {
      // What is cut among the pixels is the decoder's to say: the header is whole.
      if (pixels_seen || name == "IDAT") return header;
      return bad_png("is cut: a chunk of " + std::to_string(size) + " bytes leaves the file of " +
                         std::to_string(bytes.size()),
                     at);
    }
    const std::string_view chunk = bytes.substr(at + 8, size);
    if (name == "IDAT") {
      pixels_seen = true;
    } else if (name == "IEND") {
      break;
    } else if (name == "tRNS") {
      header.alpha = true;
    } else if (name == "eXIf") {
      header.orientation = exif_orientation(chunk);
    } else if (name == "acTL" && size >= 8) {
      header.frames =
          static_cast<int32_t>(std::clamp<uint32_t>(big_u32(chunk, 0), 1, kLargestValue));
    }
    at += size + kChunkFrame;
  }
  if (!pixels_seen) return bad_png("ends before its first pixel chunk", at);
  return header;
}

}  // namespace overlord::media
