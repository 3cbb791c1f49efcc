#include "overlord/media/video/video_header.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "overlord/base/fixed_point.h"
#include "overlord/media/byte_view.h"
#include "overlord/media/refusals.h"
#include "overlord/media/video/video_track.h"

namespace overlord::media {
namespace {

constexpr int64_t kMostTicks = int64_t{1} << 52;  // no sum or difference of two overflows

constexpr std::string_view kFirstBoxes[] = {"ftyp", "moov", "mdat", "free", "skip", "wide"};

constexpr KnownStranger kStrangers[] = {
    {"#EXTM3U", "a playlist (HLS), which names clips and holds none"},
    {"<?xml", "an XML document or a playlist (DASH)"},
    {"RIFF", "an AVI or other RIFF file"},
    {"FLV\x01", "a Flash video"},
    {"\x47\x40", "an MPEG transport stream"},
    {std::string_view("\x00\x00\x01\xBA", 4), "an MPEG program stream"},
    {"\x30\x26\xB2\x75", "a Windows media file"},
    {"OggS", "an OGG file"},
    {"GIF8", "a GIF"},
    {"\xFF\xD8\xFF", "a JPEG"},
    {"\x89PNG", "a PNG"},
};

Status not_a_clip(std::string_view head) {
  return wrong_format("clip", head, stranger_name(head, kStrangers),
                      "; clips must be MP4, QuickTime, Matroska or WebM");
}

}  // namespace

int64_t VideoHeader::milliseconds() const {
  return static_cast<int64_t>(Int128{ticks} * tick_num * 1000 / tick_den);
}

VideoHeader::Rate VideoHeader::rate() const {
  // Ticks below 2^52 and parts below 2^32 keep the products inside; the terms are small in
  // practice.
  Int128 num = Int128{frames} * tick_den;
  Int128 den = Int128{std::max<int64_t>(ticks, 1)} * tick_num;
  for (Int128 a = num, b = den;;) {  // std::gcd has no 128 bits
    if (b == 0) {
      num /= a;
      den /= a;
      break;
    }
    const Int128 rest = a % b;
    a = b;
    b = rest;
  }
  while (num > INT64_MAX || den > INT64_MAX) {
    num /= 2;
    den /= 2;
  }
  return {static_cast<int64_t>(num), std::max<int64_t>(static_cast<int64_t>(den), 1)};
}

Result<VideoFormat> video_format(std::string_view head) {
  if (head.starts_with("\x1A\x45\xDF\xA3")) return VideoFormat::kMatroska;
  if (holds(head, 4, 4)) {
    for (const std::string_view box : kFirstBoxes) {
      if (head.substr(4, 4) == box) return VideoFormat::kMp4;
    }
  }
  return not_a_clip(head);
}

Status check_limits(const VideoHeader& header, size_t encoded_bytes, const VideoLimits& limits) {
  const auto encoded = static_cast<int64_t>(encoded_bytes);
  OVERLORD_RETURN_IF_ERROR(
      within_limit("clip", "size in bytes", encoded, "max_bytes", limits.bytes));
  const int64_t pixels = int64_t{header.width} * header.height;
  OVERLORD_RETURN_IF_ERROR(
      within_limit("clip", "number of pixels of a frame", pixels, "max_pixels", limits.pixels));
  OVERLORD_RETURN_IF_ERROR(
      within_limit("clip", "number of frames", header.frames, "max_frames", limits.frames));
  return within_limit("clip", "duration in seconds", header.milliseconds() / 1000, "max_seconds",
                      limits.seconds);
}

Status finish_track(const VideoLimits& limits, VideoTrack* track) {
  VideoHeader& header = track->header;
  if (header.width < 1 || header.height < 1) {
    return bad_data("clip has frames of " + std::to_string(header.width) + "x" +
                    std::to_string(header.height) + " pixels");
  }
  if (header.tick_num < 1 || header.tick_den < 1) {
    return bad_data("clip counts time in units of " + std::to_string(header.tick_num) + "/" +
                    std::to_string(header.tick_den) + " s");
  }
  const int64_t common = std::gcd(header.tick_num, header.tick_den);
  header.tick_num /= common;
  header.tick_den /= common;
  const VideoSample* first = nullptr;
  const VideoSample* last = nullptr;
  int64_t end = 0;
  for (VideoSample& sample : track->samples) {
    sample.shown = sample.shown && sample.size > 0;
    if (!sample.shown) continue;
    if (std::max(sample.time, -sample.time) > kMostTicks || sample.duration < 0 ||
        sample.duration > kMostTicks) {
      return bad_data("clip shows a frame at a senseless time: tick " +
                      std::to_string(sample.time));
    }
    if (first == nullptr || sample.time < first->time) first = &sample;
    if (last == nullptr || sample.time >= last->time) last = &sample;
    end = header.frames == 0 ? sample.time + sample.duration
                             : std::max(end, sample.time + sample.duration);
    ++header.frames;
  }
  if (first == nullptr) return bad_data("clip shows no frame");
  if (header.frames > 1 && last->time == first->time) {
    return bad_data("clip shows all of its " + std::to_string(header.frames) +
                    " frames at one time: no rate can be told");
  }
  // A last frame that does not say how long it is stays as long as the others on average.
  if (last->duration == 0 && header.frames > 1) {
    end = std::max(end, last->time + (last->time - first->time) / (header.frames - 1));
  }
  header.ticks = std::max<int64_t>(end - first->time, 1);
  return check_limits(header, 0, limits);
}

Result<VideoTrack> read_video_track(const BlobHead& blob, const VideoLimits& limits) {
  const auto size = static_cast<int64_t>(blob.size_bytes);
  OVERLORD_RETURN_IF_ERROR(within_limit("clip", "size in bytes", size, "max_bytes", limits.bytes));
  OVERLORD_TRY(const VideoFormat format, video_format(blob.head));
  if (format == VideoFormat::kMatroska && !blob.whole()) {
    return invalid_argument("matroska is read only as a whole; got " +
                            std::to_string(blob.head.size()) + " of " + std::to_string(size) +
                            " bytes");
  }
  Result<VideoTrack> read = format == VideoFormat::kMp4 ? read_mp4_track(blob, limits)
                                                        : read_matroska_track(blob.head, limits);
  if (!read.ok()) return read.status();
  read->header.format = format;
  OVERLORD_RETURN_IF_ERROR(finish_track(limits, &*read));
  return read;
}

Result<BlobNeed> video_probe_need(const BlobHead& blob) {
  OVERLORD_TRY(const VideoFormat format, video_format(blob.head));
  if (format == VideoFormat::kMp4) return mp4_probe_need(blob);
  return blob.rest();
}

Result<VideoHeader> probe_video(const BlobHead& blob, const VideoLimits& limits) {
  OVERLORD_TRY(const VideoTrack track, read_video_track(blob, limits));
  return track.header;
}

Result<VideoHeader> probe_video(std::string_view bytes) {
  return probe_video(BlobHead::all_of(bytes), {});
}

}  // namespace overlord::media
