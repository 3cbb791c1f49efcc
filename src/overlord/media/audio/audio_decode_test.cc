// Needs codecs: AUDIO
#include "overlord/media/audio/audio_decode.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "overlord/media/audio/made_up_sounds_test.h"

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

// Vorbis, with every byte of its headers wrong in turn, cut short in them, and behind an ID3 tag.
std::vector<std::string> damaged_vorbis() {
  const std::string whole = sound_file(hum(3000, 1, 12), 1, 16000, kOggVorbis);
  const size_t second = whole.find("OggS", 4);
  const size_t last = whole.rfind("OggS");
  std::vector<std::string> files;
  for (size_t at = 4; at < last; at += at < second + 300 ? 1 : 61) {
    std::string& file = files.emplace_back(whole);
    file[at] = static_cast<char>(file[at] ^ 0x55);
  }
  // The headers' first page, and the last of the sound: nothing between.
  files.push_back(whole.substr(0, second) + whole.substr(last));
  const std::string tag("ID3\x04\0\0\0\0\0\x07.......", 17);
  for (size_t i = files.size(); i-- > 0;) files.push_back(tag + files[i]);
  return files;
}

// libsndfile keeps what it made of the first headers for ever when a later one fails. The address
// sanitizer counts for itself; elsewhere the allocator does.
TEST(AudioDecode, DamagedVorbisLeavesNothingBehind) {
  const std::vector<std::string> files = damaged_vorbis();
  std::vector<bool> good(files.size());
  const auto decode_all = [&] {
    for (size_t i = 0; i < files.size(); ++i) good[i] = decoded(files[i]).ok();
  };
  decode_all();
  const size_t before = mallinfo2().uordblks;
  for (int round = 0; round < 3; ++round) decode_all();
  EXPECT_LT(mallinfo2().uordblks, before + 3000);  // one header of Vorbis is 5784
  EXPECT_EQ(std::count(good.begin(), good.end(), true), 0);
}

TEST(AudioDecode, DamagedHeadersOfOggAreNamedByTheirPlace) {
  const std::string whole = sound_file(hum(3000, 1, 12), 1, 16000, kOggVorbis);
  const size_t second = whole.find("OggS", 4);
  std::string file = whole;
  file[second + 100] = static_cast<char>(file[second + 100] ^ 1);
  const std::string at = "headers at byte " + std::to_string(second);
  const std::string text = decoded(file).status().message();
  EXPECT_NE(text.find(at + " fails its checksum"), std::string::npos) << text;
  const std::string cut = whole.substr(0, second) + whole.substr(whole.rfind("OggS"));
  EXPECT_NE(decoded(cut).status().message().find(at + " does not continue"), std::string::npos);
  EXPECT_TRUE(decoded(whole).ok());
  EXPECT_TRUE(decoded(sound_file(hum(4800, 2, 13), 2, 48000, kOggOpus)).ok());
}

}  // namespace
}  // namespace overlord::media
