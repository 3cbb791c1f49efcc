// Needs codecs: AUDIO
#include "overlord/media/audio_head.h"

#include <gtest/gtest.h>

#include "overlord/media/made_up_sounds_test.h"

namespace overlord::media {
namespace {

// Of the first bytes as much is told as of the whole.
TEST(AudioHead, TellsTheLengthOfEveryFormatThatHasItInFront) {
  for (const auto& [format, rate, channels] :
       {std::tuple{kWav16, 44100, 2}, std::tuple{kWavFloat, 16000, 1},
        std::tuple{kFlac16, 48000, 2}, std::tuple{kMp3, 16000, 1}}) {
    const std::string bytes = sound_file(hum(90000, channels, 5), channels, rate, format);
    const auto whole = probe_audio(bytes);
    ASSERT_TRUE(whole.ok()) << whole.status().message();
    for (const size_t head : {size_t{4096}, bytes.size() / 2, bytes.size()}) {
      const auto got = probe_audio_head(std::string_view(bytes).substr(0, head), bytes.size());
      ASSERT_TRUE(got.ok()) << got.status().message() << ", " << head << " of " << bytes.size();
      EXPECT_EQ(*got, *whole) << head << " of " << bytes.size();
    }
  }
}

TEST(AudioHead, OggTellsItsLengthAtItsEnd) {
  for (const int format : {kOggVorbis, kOggOpus}) {
    const std::string bytes = sound_file(hum(96000, 1, 5), 1, 48000, format);
    const auto whole = probe_audio_head(bytes, bytes.size());
    ASSERT_TRUE(whole.ok()) << whole.status().message();
    EXPECT_EQ(whole->frames, 96000);
    const auto cut = probe_audio_head(std::string_view(bytes).substr(0, 4096), bytes.size());
    ASSERT_FALSE(cut.ok());
    EXPECT_NE(cut.status().message().find("last page"), std::string::npos);
    EXPECT_NE(cut.status().message().find("first 4096"), std::string::npos);
  }
}

TEST(AudioHead, WhatIsNoSoundIsNamed) {
  EXPECT_FALSE(probe_audio_head("", 0).ok());
  EXPECT_NE(probe_audio_head("<html>", 4000).status().message().find("HTML"), std::string::npos);
  const std::string wav = sound_file(hum(4000, 1, 1), 1, 16000, kWav16);
  const auto cut = probe_audio_head(std::string_view(wav).substr(0, 100), wav.size() - 1);
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.status().message().find("cut"), std::string::npos);
  const std::string flac = sound_file(hum(4000, 1, 1), 1, 16000, kFlac16);
  for (size_t size = 0; size < 64; ++size) {  // never reads behind its bytes
    for (const std::string& bytes : {wav, flac}) {
      static_cast<void>(probe_audio_head(std::string(bytes, 0, size), bytes.size()));
    }
  }
}

}  // namespace
}  // namespace overlord::media
