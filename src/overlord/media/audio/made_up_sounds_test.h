// Sounds for tests: chirps, hum and noise made of integers only, so that every machine and the
// Python that made the reference values have the same samples, encoded with the library that
// decodes them.
// Needs codecs: AUDIO
#pragma once

#include <sndfile.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "overlord/base/check.h"

namespace overlord::media {

// Interleaved; a saw whose pitch climbs, a triangle per channel, and noise of a congruential draw.
inline std::vector<int16_t> hum(int64_t frames, int32_t channels, uint32_t seed) {
  std::vector<int16_t> samples;
  uint32_t state = seed;
  for (int64_t t = 0; t < frames; ++t) {
    for (int32_t c = 0; c < channels; ++c) {
      state = state * 1664525U + 1013904223U;
      const int64_t saw = (t * (t / 64 + 40 + c)) % 4096 - 2048;
      const int64_t period = 90 + 20 * c;
      const int64_t triangle = (t % period < period / 2 ? t % period : period - t % period) * 100;
      const int64_t noise = static_cast<int64_t>(state >> 24) - 128;
      samples.push_back(static_cast<int16_t>(2 * saw + triangle + noise - 2000));
    }
  }
  return samples;
}

// A file of the library's in memory.
struct GrowingFile {
  std::string bytes;
  size_t at = 0;
};

// `format` as libsndfile writes it, for example SF_FORMAT_FLAC | SF_FORMAT_PCM_16.
inline std::string sound_file(const std::vector<int16_t>& samples, int32_t channels, int32_t rate,
                              int format) {
  GrowingFile file;
  SF_VIRTUAL_IO io = {
      [](void* f) { return static_cast<sf_count_t>(static_cast<GrowingFile*>(f)->bytes.size()); },
      [](sf_count_t offset, int whence, void* f) {
        auto& to = *static_cast<GrowingFile*>(f);
        const auto base = whence == SEEK_CUR   ? static_cast<sf_count_t>(to.at)
                          : whence == SEEK_END ? static_cast<sf_count_t>(to.bytes.size())
                                               : 0;
        to.at = static_cast<size_t>(base + offset);
        return static_cast<sf_count_t>(to.at);
      },
      [](void* out, sf_count_t count, void* f) {
        auto& from = *static_cast<GrowingFile*>(f);
        const std::string_view part = std::string_view(from.bytes).substr(from.at, count);
        std::memcpy(out, part.data(), part.size());
        from.at += part.size();
        return static_cast<sf_count_t>(part.size());
      },
      [](const void* in, sf_count_t count, void* f) {
        auto& to = *static_cast<GrowingFile*>(f);
        const auto size = static_cast<size_t>(count);
        if (to.bytes.size() < to.at + size) to.bytes.resize(to.at + size);
        std::memcpy(to.bytes.data() + to.at, in, size);
        to.at += size;
        return count;
      },
      [](void* f) { return static_cast<sf_count_t>(static_cast<GrowingFile*>(f)->at); }};
  SF_INFO info = {};
  info.channels = channels;
  info.samplerate = rate;
  info.format = format;
  SNDFILE* const out = sf_open_virtual(&io, SFM_WRITE, &info, &file);
  OVERLORD_CHECK(out != nullptr, "libsndfile cannot write this format");
  sf_command(out, SFC_SET_SCALE_INT_FLOAT_WRITE, nullptr, SF_TRUE);
  sf_writef_short(out, samples.data(), static_cast<sf_count_t>(samples.size()) / channels);
  sf_close(out);
  return file.bytes;
}

inline constexpr int kWav16 = SF_FORMAT_WAV | SF_FORMAT_PCM_16;
inline constexpr int kWavFloat = SF_FORMAT_WAV | SF_FORMAT_FLOAT;
inline constexpr int kFlac16 = SF_FORMAT_FLAC | SF_FORMAT_PCM_16;
inline constexpr int kOggVorbis = SF_FORMAT_OGG | SF_FORMAT_VORBIS;
inline constexpr int kOggOpus = SF_FORMAT_OGG | SF_FORMAT_OPUS;
inline constexpr int kMp3 = SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III;

}  // namespace overlord::media
