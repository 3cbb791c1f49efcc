// What a sound file says of itself: format, channels, sample rate and length, read from its headers
// without decoding a sample. The planner sizes samples by it and the decoder checks its limits
// against it before it allocates. Every lie and every cut that headers can show is a Status that
// names what was found.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "overlord/base/fields.h"
#include "overlord/base/status.h"

namespace overlord::media {

enum class AudioFormat : uint8_t { kWav, kFlac, kOgg, kMp3 };

enum class AudioCoding : uint8_t { kInteger, kFloat, kCompanded, kFlac, kVorbis, kOpus, kMp3 };

struct AudioHeader {
  AudioFormat format = AudioFormat::kWav;
  AudioCoding coding = AudioCoding::kInteger;
  int32_t channels = 0;
  int32_t sample_rate = 0;  // Hz
  int32_t bit_depth = 0;    // of a stored sample; 0 where the coding has none
  int64_t frames = 0;       // one sample of every channel each

  friend bool operator==(const AudioHeader&, const AudioHeader&) = default;

  OVERLORD_FIELDS(format, coding, channels, sample_rate, bit_depth, frames)

  int64_t milliseconds() const { return frames * 1000 / sample_rate; }
  // Whether every decoder of the format gives the same samples. Vorbis, Opus and MP3 are defined
  // within a tolerance, and decoders compute them in floats of their own.
  bool exact() const { return coding < AudioCoding::kVorbis; }
};

// The format by content, never by file name.
Result<AudioFormat> audio_format(std::string_view bytes);

Result<AudioHeader> probe_audio(std::string_view bytes);

inline constexpr uint64_t kLargestOggPage = 27 + 255 + 255 * 255;

// One per format; `bytes` start with the format's signature. MP3 has no header of its own: the
// library reads its length from the tag of the first frame, or estimates it from the first frames
// and the file's size where there is none; so it is read only by builds that have the library.
// `size_bytes` are those of the whole file where `bytes` are only its begin.
Result<AudioHeader> probe_wav(std::string_view bytes, uint64_t size_bytes);
Result<AudioHeader> probe_flac(std::string_view bytes);
// `end` are the file's last bytes, kLargestOggPage of them or all.
Result<AudioHeader> probe_ogg(std::string_view bytes, std::string_view end);
Result<AudioHeader> probe_mp3(std::string_view bytes, uint64_t size_bytes);

// Whether the packets that set a decoder up are whole, by the checksums of their pages. libsndfile
// (1.2 and before) never frees what it made of the first ones when a later one fails, so nothing
// that would fail there may reach it.
Status check_ogg_headers(std::string_view bytes);

// Where the sound begins behind the ID3 tags at the start; 0 where there are none.
uint64_t behind_id3_tags(std::string_view bytes);

}  // namespace overlord::media
