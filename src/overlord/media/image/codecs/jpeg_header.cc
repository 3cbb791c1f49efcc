// Header of JPEG: walks the markers to the first scan, and over all scans where there can be
// several (progressive files, files with one scan per component).
#include <cstring>

#include "overlord/media/byte_view.h"
#include "overlord/media/image/codecs/exif.h"
#include "overlord/media/image/image_header.h"

namespace overlord::media {
namespace {

constexpr uint32_t kStartOfScan = 0xDA;
constexpr uint32_t kEndOfImage = 0xD9;
constexpr uint32_t kApp1 = 0xE1;
constexpr std::string_view kExifPrefix("Exif\0\0", 6);

bool is_frame(uint32_t marker) {
  // 0xC4, 0xC8 and 0xCC are tables that share the range.
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}
bool is_alone(uint32_t marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8); }

Status bad_jpeg(const std::string& what, size_t offset) {
  return bad_data("JPEG " + what + " (at byte " + std::to_string(offset) + ")");
}

class JpegWalk {
 public:
  explicit JpegWalk(std::string_view bytes) : bytes_(bytes) {}

  Result<ImageHeader> walk() {
    for (;;) {
      const Result<uint32_t> marker = next_marker();
      if (!marker.ok()) return marker.status();
      if (is_alone(*marker)) continue;
      if (*marker == kEndOfImage) return bad_jpeg("ends before its first scan", at_);
      const Result<std::string_view> segment = next_segment();
      if (!segment.ok()) return segment.status();
      if (is_frame(*marker)) {
        OVERLORD_RETURN_IF_ERROR(frame(*marker, *segment));
      } else if (*marker == kApp1 && segment->starts_with(kExifPrefix) && !exif_seen_) {
        exif_seen_ = true;
        header_.orientation = exif_orientation(segment->substr(kExifPrefix.size()));
      } else if (*marker == kStartOfScan) {
        OVERLORD_RETURN_IF_ERROR(scans(*segment));
        return header_;
      }
    }
  }

 private:
  // Positioned after it; fill bytes (0xFF) may precede a marker.
  Result<uint32_t> next_marker() {
    if (!holds(bytes_, at_, 2)) return bad_jpeg("is cut in its headers", at_);
    if (byte_at(bytes_, at_) != 0xFF) return bad_jpeg("has no marker where one must be", at_);
    while (at_ < bytes_.size() && byte_at(bytes_, at_) == 0xFF) ++at_;
    if (at_ == bytes_.size()) return bad_jpeg("is cut in its headers", at_);
    return byte_at(bytes_, at_++);
  }

  Result<std::string_view> next_segment() {
    if (!holds(bytes_, at_, 2)) return bad_jpeg("is cut in its headers", at_);
    const size_t size = big_u16(bytes_, at_);
    if (size < 2) return bad_jpeg("has a segment shorter than its own length field", at_);
    if (!holds(bytes_, at_, size)) {
      return bad_jpeg("is cut: a header segment of " + std::to_string(size) +
                          " bytes leaves the file of " + std::to_string(bytes_.size()),
                      at_);
    }
    const std::string_view segment = bytes_.substr(at_ + 2, size - 2);
    at_ += size;
    return segment;
  }

  Status frame(uint32_t marker, std::string_view segment) {
    if (frame_seen_) return bad_jpeg("has two frames; hierarchical files are not supported", at_);
    if (segment.size() < 6) return bad_jpeg("has a frame header that is too short", at_);
    // 0xC0 baseline, 0xC1 extended, 0xC2 progressive, 0xC9 and 0xCA the same two in arithmetic
    // coding, which libjpeg-turbo reads as well.
    if (marker != 0xC0 && marker != 0xC1 && marker != 0xC2 && marker != 0xC9 && marker != 0xCA) {
      return bad_jpeg("is lossless or hierarchical, which is not supported", at_);
    }
    header_.bit_depth = static_cast<int32_t>(byte_at(segment, 0));
    header_.height = static_cast<int32_t>(big_u16(segment, 1));
    header_.width = static_cast<int32_t>(big_u16(segment, 3));
    header_.channels = static_cast<int32_t>(byte_at(segment, 5));
    header_.progressive = marker == 0xC2 || marker == 0xCA;
    if (header_.bit_depth != 8) {
      return bad_jpeg("has " + std::to_string(header_.bit_depth) + " bits per sample; only 8 work",
                      at_);
    }
    if (header_.width == 0 || header_.height == 0) {
      return bad_jpeg("declares " + std::to_string(header_.width) + "x" +
                          std::to_string(header_.height) + " pixels",
                      at_);
    }
    if (header_.channels != 1 && header_.channels != 3 && header_.channels != 4) {
      return bad_jpeg("has " + std::to_string(header_.channels) + " components; 1, 3 or 4 work",
                      at_);
    }
    if (segment.size() != 6 + 3 * static_cast<size_t>(header_.channels)) {
      return bad_jpeg("has a frame header of the wrong length", at_);
    }
    header_.colour = header_.channels == 1   ? ImageColour::kGrey
                     : header_.channels == 3 ? ImageColour::kColour
                                             : ImageColour::kCmyk;
    frame_seen_ = true;
    return {};
  }

  Status scans(std::string_view first_scan) {
    if (!frame_seen_) return bad_jpeg("has a scan before its frame header", at_);
    if (first_scan.empty()) return bad_jpeg("has an empty scan header", at_);
    const bool whole_in_one = static_cast<int32_t>(byte_at(first_scan, 0)) == header_.channels;
    header_.scans = 1;
    if (!header_.progressive && whole_in_one) return {};
    // Entropy-coded data holds 0xFF only before 0x00 and restart markers: the next other one
    // starts a segment. Whatever is wrong behind the first scan is for the decoder to say.
    const char* const end = bytes_.data() + bytes_.size();
    const char* from = bytes_.data() + at_;
    while ((from = static_cast<const char*>(
                std::memchr(from, 0xFF, static_cast<size_t>(end - from)))) != nullptr) {
      if (end - from < 2) break;
      const uint32_t marker = static_cast<uint8_t>(from[1]);
      if (marker == kEndOfImage) break;
      if (marker == 0 || marker == 0xFF || is_alone(marker)) {
        from += marker == 0xFF ? 1 : 2;
        continue;
      }
      if (end - from < 4) break;
      header_.scans += marker == kStartOfScan;
      const size_t size = big_u16({from + 2, 2}, 0);
      if (static_cast<size_t>(end - from - 2) < size) break;
      from += 2 + size;
    }
    return {};
  }

  std::string_view bytes_;
  size_t at_ = 2;
  bool frame_seen_ = false;
  bool exif_seen_ = false;
  ImageHeader header_;
};

}  // namespace

Result<ImageHeader> probe_jpeg(std::string_view bytes) { return JpegWalk(bytes).walk(); }

}  // namespace overlord::media
