// Header of WebP: the RIFF chunks and the first bytes of the lossy (VP8) or lossless (VP8L) stream.
#include <algorithm>

#include "overlord/media/byte_view.h"
#include "overlord/media/image/codecs/exif.h"
#include "overlord/media/image/image_header.h"

namespace overlord::media {
namespace {

constexpr size_t kRiffBytes = 12;
constexpr size_t kChunkHead = 8;

Status bad_webp(const std::string& what, size_t offset) {
  return bad_data("WebP " + what + " (at byte " + std::to_string(offset) + ")");
}

struct StreamSize {
  int32_t width = 0;
  int32_t height = 0;
  bool alpha = false;
};

Result<StreamSize> lossy_size(std::string_view chunk, size_t offset) {
  if (chunk.size() < 10) return bad_webp("has a lossy stream that is too short", offset);
  const uint32_t bits = little_u24(chunk, 0);
  if ((bits & 1) != 0) return bad_webp("does not start with a key frame", offset);
  if (chunk.substr(3, 3) != "\x9d\x01\x2a") {
    return bad_webp("has a lossy stream without its start code", offset);
  }
  return StreamSize{static_cast<int32_t>(little_u16(chunk, 6) & 0x3FFF),
                    static_cast<int32_t>(little_u16(chunk, 8) & 0x3FFF), false};
}

Result<StreamSize> lossless_size(std::string_view chunk, size_t offset) {
  if (chunk.size() < 5) return bad_webp("has a lossless stream that is too short", offset);
  if (byte_at(chunk, 0) != 0x2F) {
    return bad_webp("has a lossless stream without its start code", offset);
  }
  const uint32_t bits = little_u32(chunk, 1);
  return StreamSize{static_cast<int32_t>(bits & 0x3FFF) + 1,
                    static_cast<int32_t>(bits >> 14 & 0x3FFF) + 1, (bits >> 28 & 1) != 0};
}

class WebpWalk {
 public:
  explicit WebpWalk(std::string_view bytes) : bytes_(bytes) { header_.format = ImageFormat::kWebp; }

  Result<ImageHeader> walk() {
    const size_t declared = size_t{little_u32(bytes_, 4)} + 8;
    if (declared > bytes_.size()) {
      return bad_webp("is cut: it declares " + std::to_string(declared) + " bytes and has " +
                          std::to_string(bytes_.size()),
                      4);
    }
    size_t at = kRiffBytes;
    int32_t animation_frames = 0;
    while (holds(bytes_, at, kChunkHead) && at < declared) {
      const std::string_view name = bytes_.substr(at, 4);
      const size_t size = little_u32(bytes_, at + 4);
      if (!holds(bytes_, at + kChunkHead, size)) {
        return bad_webp("is cut: a chunk of " + std::to_string(size) +
                            " bytes leaves the file of " + std::to_string(bytes_.size()),
                        at);
      }
      const std::string_view chunk = bytes_.substr(at + kChunkHead, size);
      if (name == "VP8X") {
        OVERLORD_RETURN_IF_ERROR(extended(chunk, at));
      } else if (name == "VP8 " || name == "VP8L") {
        OVERLORD_RETURN_IF_ERROR(stream(name == "VP8L", chunk, at));
      } else if (name == "ANMF") {
        ++animation_frames;
      } else if (name == "EXIF") {
        header_.orientation = exif_orientation(chunk);
      }
      at += kChunkHead + size + (size & 1);
    }
    if (animation_frames > 0) header_.frames = std::max(animation_frames, header_.frames);
    if (header_.frames == 1 && !stream_seen_) return bad_webp("holds no picture", at);
    header_.channels = header_.alpha ? 4 : 3;
    return header_;
  }

 private:
  Status extended(std::string_view chunk, size_t offset) {
    if (chunk.size() < 10) return bad_webp("has a VP8X chunk that is too short", offset);
    extended_seen_ = true;
    const uint32_t flags = byte_at(chunk, 0);
    header_.alpha = (flags & 0x10) != 0;
    if ((flags & 0x02) != 0) header_.frames = 2;  // at least; counted by the frame chunks
    header_.width = static_cast<int32_t>(little_u24(chunk, 4)) + 1;
    header_.height = static_cast<int32_t>(little_u24(chunk, 7)) + 1;
    return {};
  }

  Status stream(bool lossless, std::string_view chunk, size_t offset) {
    if (stream_seen_) return {};
    stream_seen_ = true;
    const Result<StreamSize> size =
        lossless ? lossless_size(chunk, offset) : lossy_size(chunk, offset);
    if (!size.ok()) return size.status();
    if (size->width == 0 || size->height == 0) {
      return bad_webp("declares " + std::to_string(size->width) + "x" +
                          std::to_string(size->height) + " pixels",
                      offset);
    }
    if (extended_seen_ && (size->width != header_.width || size->height != header_.height)) {
      return bad_webp("declares " + std::to_string(header_.width) + "x" +
                          std::to_string(header_.height) + " and holds " +
                          std::to_string(size->width) + "x" + std::to_string(size->height),
                      offset);
    }
    header_.width = size->width;
    header_.height = size->height;
    if (!extended_seen_) header_.alpha = size->alpha;
    return {};
  }

  std::string_view bytes_;
  bool extended_seen_ = false;
  bool stream_seen_ = false;
  ImageHeader header_;
};

}  // namespace

Result<ImageHeader> probe_webp(std::string_view bytes) { return WebpWalk(bytes).walk(); }

}  // namespace overlord::media
