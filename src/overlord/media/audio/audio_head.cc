#include "overlord/media/audio/audio_head.h"

#include <algorithm>

#include "overlord/media/byte_view.h"

namespace overlord::media {
namespace {

constexpr uint64_t kBeyond = 64 << 10;      // read behind what is passed over
constexpr uint64_t kMostPassed = 16 << 20;  // tags with pictures in them

// A longer head, to some bytes behind `offset`.
BlobNeed head_beyond(const BlobHead& blob, uint64_t offset) {
  if (offset > kMostPassed) return {};
  return {0, std::min(blob.size_bytes, offset + kBeyond)};
}

// Chunks before `data` may hold notes of any size.
BlobNeed wav_need(const BlobHead& blob) {
  uint64_t at = 12;
  while (at + 8 <= blob.size_bytes) {
    const std::string_view chunk = blob.at(at, 8);
    if (chunk.empty()) return head_beyond(blob, at);
    if (chunk.starts_with("data")) return {};
    const uint64_t size = little_u32(chunk, 4);
    at += 8 + size + size % 2;
  }
  return {};
}

// The frames of an MP3 begin behind its ID3 tag, in which there may be a picture.
BlobNeed mp3_need(const BlobHead& blob) {
  const uint64_t size = behind_id3_tags(blob.head);
  if (size == 0) return {};
  if (size + kBeyond / 2 <= blob.head.size()) return {};
  return head_beyond(blob, size);
}

}  // namespace

Result<BlobNeed> audio_probe_need(const BlobHead& blob) {
  OVERLORD_TRY(const AudioFormat format, audio_format(blob.head));
  if (format == AudioFormat::kWav) return wav_need(blob);
  if (format == AudioFormat::kMp3) return mp3_need(blob);
  if (format == AudioFormat::kFlac) return BlobNeed{};
  const uint64_t length = std::min(blob.size_bytes, kLargestOggPage);
  return BlobNeed{blob.size_bytes - length, length};
}

}  // namespace overlord::media
