// Needs codecs: AUDIO
#include "overlord/media/audio_decode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "overlord/media/made_up_sounds_test.h"

namespace overlord::media {
namespace {

Result<Sound> decoded(const std::string& bytes, const AudioLimits& limits = {}, bool mono = false) {
  OVERLORD_TRY(const AudioHeader header, probe_audio(bytes));
  AudioDecodeScratch scratch;
  Sound sound;
  OVERLORD_RETURN_IF_ERROR(decode_audio(bytes, header, limits, mono, scratch, &sound));
  return sound;
}

TEST(AudioDecode, LosslessFormatsGiveTheSamplesThatWereWritten) {
  for (const int format : {kWav16, kFlac16, kWavFloat}) {
    for (const int32_t channels : {1, 2, 5}) {
      const std::vector<int16_t> samples = hum(20011, channels, 7);
      const Sound sound = decoded(sound_file(samples, channels, 22050, format)).value();
      ASSERT_EQ(sound.frames, 20011);
      for (int64_t t = 0; t < sound.frames; ++t) {
        for (int32_t c = 0; c < channels; ++c) {
          ASSERT_EQ(sound.channel(c)[t] * 32768.0F,
                    static_cast<float>(samples[static_cast<size_t>(t * channels + c)]));
        }
      }
    }
  }
}

TEST(AudioDecode, MonoIsTheMean) {
  const std::vector<int16_t> samples = hum(5000, 2, 8);
  const Sound sound = decoded(sound_file(samples, 2, 16000, kFlac16), {}, true).value();
  ASSERT_EQ(sound.channels, 1);
  for (size_t t = 0; t < 5000; ++t) {
    ASSERT_EQ(sound.channel(0)[t] * 65536.0F,
              static_cast<float>(samples[2 * t] + samples[2 * t + 1]));
  }
}

TEST(AudioDecode, LimitsAreKeptBeforeAnythingIsAllocated) {
  const std::string bytes = sound_file(hum(16000, 2, 9), 2, 8000, kFlac16);
  const auto refusal = [&](const AudioLimits& limits) {
    return decoded(bytes, limits).status().message();
  };
  EXPECT_NE(refusal({.bytes = 100}).find("limit max_bytes = 100"), std::string::npos);
  EXPECT_NE(refusal({.frames = 15999}).find("limit max_frames = 15999"), std::string::npos);
  EXPECT_NE(refusal({.channels = 1}).find("limit max_channels = 1"), std::string::npos);
  EXPECT_NE(refusal({.seconds = 1}).find("limit max_seconds = 1"), std::string::npos);
  EXPECT_NE(refusal({.ratio = 1, .ratio_floor = 0}).find("limit max_ratio = 1"), std::string::npos);
  // Two billion samples out of a few bytes.
  std::string lie = bytes;
  std::memset(lie.data() + 22, 0x7F, 4);
  EXPECT_NE(decoded(lie).status().message().find("refused before decoding"), std::string::npos);
}

TEST(AudioDecode, AHeaderThatPromisesMoreIsFoundOut) {
  std::string bytes = sound_file(hum(16000, 1, 10), 1, 8000, kFlac16);
  bytes[25] = static_cast<char>(bytes[25] + 1);
  const std::string text = decoded(bytes).status().message();
  EXPECT_NE(text.find("16001 samples per channel are promised, 16000"), std::string::npos) << text;
}

TEST(AudioDecode, WhatIsNoNumberIsNamedByItsPlace) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::max(), 1099511627776.0F}) {
    std::string bytes = sound_file(hum(1000, 2, 11), 2, 8000, kWavFloat);
    const size_t start = bytes.find("data") + 8;
    std::memcpy(bytes.data() + start + size_t{8} * 321 + 4, &bad, 4);
    const std::string text = decoded(bytes).status().message();
    EXPECT_NE(text.find("sample 321 of channel 1"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace overlord::media
