#include "overlord/media/video/video_header.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "overlord/base/fixed_point.h"
#include "overlord/media/byte_view.h"
#include "overlord/media/video/video_track.h"
#include "overlord/runtime/quote.h"

namespace overlord::media {
namespace {

constexpr int64_t kMostTicks = int64_t{1} << 52;  // no sum or difference of two overflows

constexpr std::string_view kFirstBoxes[] = {"ftyp", "moov", "mdat", "free", "skip", "wide"};

// Formats that turn up under names of clips and are not ours to decode.
struct KnownStranger {
  std::string_view start;
  std::string_view name;
};
constexpr KnownStranger kStrangers[] = {
    {"#EXTM3U", "a playlist (HLS), which names clips and holds none"},
    {"<?xml", "an XML document or a playlist (DASH)"},
    {"<!DOCTYPE", "an HTML page"},
    {"<!doctype", "an HTML page"},
    {"<html", "an HTML page"},
    {"{\"", "a JSON document"},
    {"RIFF", "an AVI or other RIFF file"},
    {"FLV\x01", "a Flash video"},
    {"\x47\x40", "an MPEG transport stream"},
    {std::string_view("\x00\x00\x01\xBA", 4), "an MPEG program stream"},
    {"\x30\x26\xB2\x75", "a Windows media file"},
    {"OggS", "an OGG file"},
    {"GIF8", "a GIF"},
    {"\xFF\xD8\xFF", "a JPEG"},
    {"\x89PNG", "a PNG"},
    {"PK\x03\x04", "a ZIP archive"},
    {"\x1f\x8b", "gzip data"},
};

Status not_a_clip(std::string_view head) {
  constexpr std::string_view kAllowed = "; clips must be MP4, QuickTime, Matroska or WebM";
  if (head.empty()) return bad_data("clip is empty: 0 bytes");
  for (const KnownStranger& stranger : kStrangers) {
    if (!head.starts_with(stranger.start)) continue;
    return bad_data("clip is of an unsupported format: " + std::string(stranger.name) +
                    std::string(kAllowed));
  }
  return bad_data("clip is of an unknown format: it starts with " +
                  runtime::quote(head.substr(0, 12)) + std::string(kAllowed));
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

Status clip_over_limit(std::string_view what, int64_t found, std::string_view limit,
                       int64_t allowed) {
  return bad_data("clip refused before decoding: " + std::string(what) + " is " +
                  std::to_string(found) + ", more than the limit " + std::string(limit) + " = " +
                  std::to_string(allowed));
}

Status check_limits(const VideoHeader& header, size_t encoded_bytes, const VideoLimits& limits) {
  const auto encoded = static_cast<int64_t>(encoded_bytes);
  if (encoded > limits.bytes) {
    return clip_over_limit("size in bytes", encoded, "max_bytes", limits.bytes);
  }
  const int64_t pixels = int64_t{header.width} * header.height;
  if (pixels > limits.pixels) {
    return clip_over_limit("number of pixels of a frame", pixels, "max_pixels", limits.pixels);
  }
  if (header.frames > limits.frames) {
    return clip_over_limit("number of frames", header.frames, "max_frames", limits.frames);
  }
  const int64_t seconds = header.milliseconds() / 1000;
  if (seconds > limits.seconds) {
    return clip_over_limit("duration in seconds", seconds, "max_seconds", limits.seconds);
  }
  return {};
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

Result<VideoTrack> read_video_track(const VideoParts& parts, const VideoLimits& limits) {
  if (parts.size > limits.bytes) {
    return clip_over_limit("size in bytes", parts.size, "max_bytes", limits.bytes);
  }
  OVERLORD_TRY(const VideoFormat format, video_format(parts.head));
  if (format == VideoFormat::kMatroska && static_cast<int64_t>(parts.head.size()) != parts.size) {
    return invalid_argument("matroska is read only as a whole; got " +
                            std::to_string(parts.head.size()) + " of " +
                            std::to_string(parts.size) + " bytes");
  }
  Result<VideoTrack> read = format == VideoFormat::kMp4 ? read_mp4_track(parts, limits)
                                                        : read_matroska_track(parts.head, limits);
  if (!read.ok()) return read.status();
  read->header.format = format;
  OVERLORD_RETURN_IF_ERROR(finish_track(limits, &*read));
  return read;
}

Result<VideoNeed> video_probe_need(std::string_view head, int64_t size) {
  OVERLORD_TRY(const VideoFormat format, video_format(head));
  if (format == VideoFormat::kMp4) return mp4_probe_need(head, size);
  const auto read = static_cast<int64_t>(head.size());
  return VideoNeed{read, size - read};
}

Result<VideoHeader> probe_video(const VideoParts& parts, const VideoLimits& limits) {
  OVERLORD_TRY(const VideoTrack track, read_video_track(parts, limits));
  return track.header;
}

Result<VideoHeader> probe_video(std::string_view bytes) {
  return probe_video(VideoParts::whole(bytes), {});
}

}  // namespace overlord::media
