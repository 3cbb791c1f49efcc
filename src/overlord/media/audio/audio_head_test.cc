// Needs codecs: AUDIO
#include "overlord/media/audio/audio_head.h"

#include <gtest/gtest.h>

#include "overlord/media/audio/made_up_sounds_test.h"

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
      const auto got = probe_audio_head({std::string_view(bytes).substr(0, head), bytes.size()});
      ASSERT_TRUE(got.ok()) << got.status().message() << ", " << head << " of " << bytes.size();
      EXPECT_EQ(*got, *whole) << head << " of " << bytes.size();
    }
  }
}

// The header of a sound whose first bytes are there, and what it needs beside them.
Result<AudioHeader> read_as_needed(std::string_view bytes, size_t head) {
  BlobHead blob{bytes.substr(0, head), bytes.size()};
  const auto need = audio_probe_need(blob);
  EXPECT_TRUE(need.ok()) << need.status().message();
  EXPECT_LE(need->offset + need->size_bytes, bytes.size());
  const std::string_view more = bytes.substr(need->offset, need->size_bytes);
  if (need->size_bytes > 0 && need->offset == 0) blob.head = more;
  if (need->offset > 0) {
    blob.tail_offset = need->offset;
    blob.tail = more;
  }
  return probe_audio_head(blob);
}

TEST(AudioHead, OggTellsItsLengthAtItsEnd) {
  for (const int format : {kOggVorbis, kOggOpus}) {
    const std::string bytes = sound_file(hum(960000, 1, 5), 1, 48000, format);
    ASSERT_GT(bytes.size(), kLargestOggPage + 4096) << "more than a page";
    const auto got = read_as_needed(bytes, 4096);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_EQ(*got, *probe_audio(bytes));
    EXPECT_EQ(got->frames, 960000);
    const auto cut = read_as_needed(std::string_view(bytes).substr(0, bytes.size() - 1), 4096);
    ASSERT_FALSE(cut.ok());
    EXPECT_NE(cut.status().message().find("no page ends"), std::string::npos);
  }
}

TEST(AudioHead, NotesAndPicturesInFrontAreReadOver) {
  const std::string wav = sound_file(hum(90000, 2, 5), 2, 44100, kWav16);
  std::string with_notes = wav.substr(0, 12);
  with_notes += "LIST" + std::string("\x01\x86\x01\x00", 4) + std::string(99841 + 1, 'n');
  with_notes += wav.substr(12);
  const auto noted = read_as_needed(with_notes, 4096);
  ASSERT_TRUE(noted.ok()) << noted.status().message();
  EXPECT_EQ(*noted, *probe_audio(wav));

  const std::string mp3 = sound_file(hum(90000, 1, 5), 1, 16000, kMp3);
  // ID3 counts in sevens: 0x00 0x06 0x0D 0x20 are 100,000 bytes.
  std::string with_picture = std::string("ID3\x04\x00\x00\x00\x06\x0D\x20", 10);
  with_picture += std::string(100000, '\0') + mp3;
  const auto pictured = read_as_needed(with_picture, 4096);
  ASSERT_TRUE(pictured.ok()) << pictured.status().message();
  EXPECT_EQ(pictured->frames, probe_audio(with_picture)->frames);
  EXPECT_EQ(pictured->sample_rate, 16000);
}

TEST(AudioHead, WhatIsNoSoundIsNamed) {
  EXPECT_FALSE(probe_audio_head({"", 0}).ok());
  EXPECT_NE(probe_audio_head({"<html>", 4000}).status().message().find("HTML"), std::string::npos);
  const std::string wav = sound_file(hum(4000, 1, 1), 1, 16000, kWav16);
  const auto cut = probe_audio_head({std::string_view(wav).substr(0, 100), wav.size() - 1});
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.status().message().find("cut"), std::string::npos);
  const std::string flac = sound_file(hum(4000, 1, 1), 1, 16000, kFlac16);
  for (size_t size = 0; size < 64; ++size) {  // never reads behind its bytes
    for (const std::string& bytes : {wav, flac}) {
      const std::string head(bytes, 0, size);
      static_cast<void>(probe_audio_head({head, bytes.size()}));
      static_cast<void>(audio_probe_need({head, bytes.size()}));
    }
  }
}

}  // namespace
}  // namespace overlord::media
