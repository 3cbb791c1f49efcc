#include "overlord/media/audio/audio_header.h"

#include "overlord/base/enum_names.h"
#include "overlord/media/audio/audio_head.h"
#include "overlord/media/byte_view.h"
#include "overlord/media/refusals.h"
#include "overlord/runtime/quote.h"

namespace overlord::media {
namespace {

constexpr int32_t kMostChannels = 1024;
constexpr int32_t kHighestRate = 1'000'000;

constexpr KnownStranger kStrangers[] = {
    {"FORM", "an AIFF or other IFF file"},
    {".snd", "an AU file"},
    {"caff", "a CAF file"},
    {"RF64", "an RF64 WAV of more than 4 GB"},
    {"RIFX", "a big-endian WAV"},
    {"\x1a\x45\xdf\xa3", "Matroska or WebM"},
    {"#!AMR", "an AMR file"},
    {"MThd", "a MIDI file"},
    {"wvpk", "a WavPack file"},
    {"<?xml", "an XML document"},
};

Status not_a_sound(std::string_view bytes) {
  std::string name = stranger_name(bytes, kStrangers);
  if (holds(bytes, 4, 8) && bytes.substr(4, 4) == "ftyp") name = "an ISO media file (M4A or video)";
  if (holds(bytes, 0, 12) && bytes.starts_with("RIFF")) {
    name = "a RIFF file of kind " + runtime::quote(bytes.substr(8, 4)) + ", not WAVE";
  }
  return wrong_format("sound", bytes, name, "; sounds must be WAV, FLAC, OGG or MP3");
}

// An MPEG audio frame of layer 3 starts here.
bool starts_mp3_frame(std::string_view bytes) {
  if (!holds(bytes, 0, 4) || byte_at(bytes, 0) != 0xFF) return false;
  const uint32_t second = byte_at(bytes, 1);
  const uint32_t third = byte_at(bytes, 2);
  const bool sync = (second & 0xE0) == 0xE0;
  const bool version = (second >> 3 & 3) != 1;
  const bool layer3 = (second >> 1 & 3) == 1;
  return sync && version && layer3 && third >> 4 != 15 && (third >> 2 & 3) != 3;
}

// What no format may say.
Status check_header(const AudioHeader& header) {
  const std::string name = enum_name(header.format);
  if (header.channels < 1 || header.channels > kMostChannels) {
    return bad_data(name + " says it has " + std::to_string(header.channels) + " channels; 1 to " +
                    std::to_string(kMostChannels) + " make sense");
  }
  if (header.sample_rate < 1 || header.sample_rate > kHighestRate) {
    return bad_data(name + " says its sample rate is " + std::to_string(header.sample_rate) +
                    " Hz; 1 to " + std::to_string(kHighestRate) + " make sense");
  }
  if (header.frames < 0 || header.frames > int64_t{1} << 40) {
    return bad_data(name + " says it has " + std::to_string(header.frames) +
                    " samples per channel; 0 to 2^40 make sense");
  }
  return {};
}

Result<AudioHeader> probe_as(AudioFormat format, std::string_view bytes, uint64_t size_bytes) {
  switch (format) {
    case AudioFormat::kWav:
      return probe_wav(bytes, size_bytes);
    case AudioFormat::kFlac:
      return probe_flac(bytes);
    case AudioFormat::kOgg:
      return probe_ogg(bytes, bytes);
    case AudioFormat::kMp3:
      return probe_mp3(bytes, size_bytes);
  }
  return internal_error("sound format without a header reader");
}

}  // namespace

Result<AudioFormat> audio_format(std::string_view bytes) {
  if (holds(bytes, 0, 12) && bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WAVE") {
    return AudioFormat::kWav;
  }
  if (bytes.starts_with("fLaC")) return AudioFormat::kFlac;
  if (bytes.starts_with("OggS")) return AudioFormat::kOgg;
  if (bytes.starts_with("ID3") || starts_mp3_frame(bytes)) return AudioFormat::kMp3;
  return not_a_sound(bytes);
}

uint64_t behind_id3_tags(std::string_view bytes) {
  constexpr size_t kTagHeader = 10;
  uint64_t at = 0;
  while (holds(bytes, at, kTagHeader) && bytes.substr(at, 3) == "ID3") {
    const std::string_view tag = bytes.substr(at, kTagHeader);
    at += kTagHeader;
    for (size_t i = 6; i < 10; ++i) at += uint64_t{byte_at(tag, i) & 0x7F} << (7 * (9 - i));
  }
  return at;
}

Result<AudioHeader> probe_audio(std::string_view bytes) {
  OVERLORD_TRY(const AudioFormat format, audio_format(bytes));
  OVERLORD_TRY(const AudioHeader header, probe_as(format, bytes, bytes.size()));
  OVERLORD_RETURN_IF_ERROR(check_header(header));
  return header;
}

Result<AudioHeader> probe_audio_head(const BlobHead& blob) {
  if (blob.whole()) return probe_audio(blob.head);
  OVERLORD_TRY(const AudioFormat format, audio_format(blob.head));
  Result<AudioHeader> header = format == AudioFormat::kOgg
                                   ? probe_ogg(blob.head, blob.tail)
                                   : probe_as(format, blob.head, blob.size_bytes);
  if (!header.ok()) return in_head(header.status(), blob);
  OVERLORD_RETURN_IF_ERROR(check_header(*header));
  return header;
}

}  // namespace overlord::media
