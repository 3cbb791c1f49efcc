// Needs codecs: AUDIO
#include "overlord/media/audio/audio_header.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "overlord/base/enum_names.h"
#include "overlord/media/audio/audio_decode.h"
#include "overlord/media/audio/made_up_sounds_test.h"
#include "overlord/media/codecs.h"

namespace overlord::media {
namespace {

std::string message(std::string_view bytes) { return probe_audio(bytes).status().message(); }

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(AudioHeader, TellsLengthAndKindOfEveryFormat) {
  struct Case {
    int format;
    AudioFormat kind;
    AudioCoding coding;
    int32_t channels;
    int32_t rate;
    int64_t frames;
  };
  for (const Case& one : {
           Case{kWav16, AudioFormat::kWav, AudioCoding::kInteger, 1, 8000, 4001},
           Case{kWavFloat, AudioFormat::kWav, AudioCoding::kFloat, 2, 44100, 3333},
           Case{SF_FORMAT_WAV | SF_FORMAT_ULAW, AudioFormat::kWav, AudioCoding::kCompanded, 1, 8000,
                777},
           Case{SF_FORMAT_WAVEX | SF_FORMAT_PCM_24, AudioFormat::kWav, AudioCoding::kInteger, 2,
                48000, 1},
           Case{kFlac16, AudioFormat::kFlac, AudioCoding::kFlac, 2, 44100, 12345},
           Case{kOggVorbis, AudioFormat::kOgg, AudioCoding::kVorbis, 2, 44100, 9999},
           Case{kOggOpus, AudioFormat::kOgg, AudioCoding::kOpus, 1, 48000, 9600},
           Case{kMp3, AudioFormat::kMp3, AudioCoding::kMp3, 1, 16000, 8000},
       }) {
    const std::string bytes =
        sound_file(hum(one.frames, one.channels, 1), one.channels, one.rate, one.format);
    const Result<AudioHeader> header = probe_audio(bytes);
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->format, one.kind);
    EXPECT_EQ(header->coding, one.coding);
    EXPECT_EQ(header->channels, one.channels);
    EXPECT_EQ(header->sample_rate, one.rate);
    EXPECT_EQ(header->frames, one.frames) << enum_name(one.coding);
    // The decoder finds what the header promised.
    AudioDecodeScratch scratch;
    Sound sound;
    const Status status = decode_audio(bytes, *header, {}, false, scratch, &sound);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

TEST(AudioHeader, NamesWhatIsNoSound) {
  EXPECT_TRUE(says(message(""), "empty"));
  EXPECT_TRUE(says(message("<html><body>404"), "HTML"));
  EXPECT_TRUE(says(message("FORM....AIFF"), "AIFF"));
  EXPECT_TRUE(says(message("RIFF....AVI ...."), "not WAVE"));
  EXPECT_TRUE(says(message("\x01\x02\x03"), "unknown format"));
  EXPECT_TRUE(says(message(std::string("\0\0\0\x18") + "ftypM4A "), "unknown format") ||
              says(message(std::string("\0\0\0\x18", 4) + "ftypM4A "), "M4A"));
}

TEST(AudioHeader, EveryCutOfAFileIsAStatus) {
  for (const int format : {kWav16, kFlac16, kOggVorbis}) {
    const std::string whole = sound_file(hum(3000, 1, 2), 1, 16000, format);
    AudioDecodeScratch scratch;
    Sound sound;
    for (size_t size = 0; size < whole.size(); size += size < 200 ? 1 : 97) {
      const std::string_view part = std::string_view(whole).substr(0, size);
      const Result<AudioHeader> header = probe_audio(part);
      // FLAC tells at its start how long it is: the decoder finds that it is not.
      const Status status =
          header.ok() ? decode_audio(part, *header, {}, false, scratch, &sound) : header.status();
      ASSERT_FALSE(status.ok()) << size << " of " << whole.size() << " bytes";
      ASSERT_EQ(status.code(), Code::kBadData);
    }
  }
}

TEST(AudioHeader, ACutSaysWhatWasPromisedAndWhatIsThere) {
  const std::string wav = sound_file(hum(1000, 1, 3), 1, 16000, kWav16);
  EXPECT_TRUE(says(message(std::string_view(wav).substr(0, wav.size() - 500)),
                   "promises 2000 bytes, 1500 are there"));
  const std::string ogg = sound_file(hum(20000, 1, 3), 1, 16000, kOggVorbis);
  EXPECT_TRUE(says(message(std::string_view(ogg).substr(0, ogg.size() - 50)), "ogg is cut"));
}

TEST(AudioHeader, RefusesWhatMakesNoSense) {
  std::string wav = sound_file(hum(1000, 1, 4), 1, 16000, kWav16);
  std::string silent_rate = wav;
  std::memset(silent_rate.data() + 24, 0, 4);
  EXPECT_TRUE(says(message(silent_rate), "0 Hz"));
  std::string channels = wav;
  channels[22] = 7;
  EXPECT_TRUE(says(message(channels), "contradicts itself"));
  std::string coding = wav;
  coding[20] = 0x55;
  EXPECT_TRUE(says(message(coding), "unsupported coding"));
  std::string flac = sound_file(hum(1000, 1, 4), 1, 16000, kFlac16);
  std::memset(flac.data() + 22, 0, 4);
  flac[21] = static_cast<char>(flac[21] & 0xF0);
  EXPECT_TRUE(says(message(flac), "how long"));
}

TEST(AudioHeader, AnOpusFileThatEndsBeforeItBeginsIsEmpty) {
  std::string ogg = sound_file(hum(9600, 1, 5), 1, 48000, kOggOpus);
  const size_t position = ogg.rfind("OggS") + 6;
  ASSERT_GT(probe_audio(ogg).value().frames, 0);
  for (const int64_t last : {INT64_MIN, INT64_MIN + 1, int64_t{-1}, int64_t{0}, int64_t{1}}) {
    std::memcpy(ogg.data() + position, &last, sizeof last);
    const Result<AudioHeader> header = probe_audio(ogg);
    ASSERT_TRUE(header.ok()) << header.status().message();
    EXPECT_EQ(header->frames, 0) << last;
  }
  const int64_t latest = INT64_MAX;
  std::memcpy(ogg.data() + position, &latest, sizeof latest);
  EXPECT_TRUE(says(message(ogg), "0 to 2^40 make sense"));
}

TEST(AudioHeader, AStreamedWavIsAsLongAsItsBytes) {
  std::string wav = sound_file(hum(1000, 2, 5), 2, 16000, kWav16);
  const size_t data = wav.find("data");
  std::memset(wav.data() + data + 4, 0xFF, 4);
  std::memset(wav.data() + 4, 0xFF, 4);
  const AudioHeader header = probe_audio(wav).value();
  EXPECT_EQ(header.frames, 1000);
  AudioDecodeScratch scratch;
  Sound sound;
  EXPECT_TRUE(decode_audio(wav, header, {}, false, scratch, &sound).ok());
}

TEST(AudioHeader, TheLibraryIsListedAmongTheCodecs) {
  const Codec& codec = codecs()[3];
  EXPECT_EQ(codec.name, "audio");
  EXPECT_TRUE(codec.present);
  // The kept sounds are lossless: every build decodes them to the same samples.
  EXPECT_EQ(codec.fingerprint.hex(), "d4c3e5ad8c1a74187c746ec61f501265");
}

}  // namespace
}  // namespace overlord::media
