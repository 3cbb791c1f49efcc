// Needs codecs: AUDIO
#include "overlord/media/audio/audio_chain.h"

#include <gtest/gtest.h>

#include "overlord/base/rng.h"
#include "overlord/media/audio/made_up_sounds_test.h"

namespace overlord::media {
namespace {

PreparedAudioChain chain_of(std::string_view text) {
  Result<AudioChain> chain = parse_audio_chain(text);
  EXPECT_TRUE(chain.ok()) << chain.status().message();
  Result<PreparedAudioChain> prepared = PreparedAudioChain::prepare(*chain);
  EXPECT_TRUE(prepared.ok()) << prepared.status().message();
  return *prepared;
}

// A chain with random steps in a legal order.
std::string random_chain(uint64_t seed) {
  uint64_t n = 0;
  const auto draw = [&](uint64_t below) { return uniform_below(seed, 77, n++, below); };
  const bool spectrogram = draw(2) == 0;
  std::string text = "decode max_seconds=60";
  if (spectrogram || draw(2)) text += "; mono";
  const char* const qualities[] = {"fast", "standard", "high"};
  if (spectrogram || draw(2)) {
    text += std::string("; resample quality=") + qualities[draw(3)];
    text += spectrogram ? " rate=16000" : " rate=22050";
  }
  const std::string samples = std::to_string(300 + draw(2000));
  switch (draw(5)) {
    case 0:
      text += "; fit samples=" + samples;
      break;
    case 1:
      text += "; random_cut samples=" + samples;
      break;
    case 2:
      text += "; chunk samples=" + samples;
      break;
    case 3:
      text +=
          "; chunk samples=" + samples + " hop=" + std::to_string(50 + draw(500)) + " last=drop";
      break;
    default:
      break;
  }
  if (spectrogram)
    return text + (draw(2) ? "; log_mel mels=80" : "; log_mel mels=128 tokens=frames");
  return draw(2) ? text : text + "; pcm16";
}

TEST(AudioChain, WhatIsPlannedFromTheHeaderIsWhatDecodingYields) {
  AudioScratch scratch;
  const int formats[] = {kWav16, kFlac16, kOggVorbis};
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto draw = [&](uint64_t n, uint64_t below) {
      return static_cast<int32_t>(uniform_below(seed, 5, n, below));
    };
    const int32_t channels = 1 + draw(0, 3);
    const int32_t rates[] = {8000, 16000, 22050, 44100};
    const std::string bytes = sound_file(hum(9000 + draw(1, 3000), channels, 1), channels,
                                         rates[draw(2, 4)], formats[draw(3, 3)]);
    const std::string text = random_chain(seed);
    const PreparedAudioChain chain = chain_of(text);
    const Result<AudioGeometry> planned = chain.planned_size(probe_audio(bytes).value());
    ASSERT_TRUE(planned.ok()) << text << planned.status().message();
    std::vector<uint8_t> first;
    for (int again = 0; again < 2; ++again) {
      const auto outcome = chain.run(bytes, seed, scratch);
      ASSERT_TRUE(outcome.ok()) << text << outcome.status().message();
      EXPECT_EQ(outcome->geometry, *planned);
      EXPECT_EQ(outcome->bytes.size(), planned->bytes());
      if (again == 0) first = outcome->bytes;
      EXPECT_EQ(outcome->bytes, first) << text;
    }
  }
}

TEST(AudioChain, TextFormNamesEveryValueAndReadsBack) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const AudioChain chain = parse_audio_chain(random_chain(seed)).value();
    EXPECT_EQ(parse_audio_chain(chain_text(chain)).value(), chain);
  }
  EXPECT_EQ(chain_text(parse_audio_chain("mono; resample; log_mel").value()),
            "decode max_bytes=268435456 max_frames=268435456 max_channels=16 max_seconds=14400 "
            "max_ratio=2000 ratio_floor=16777216; mono; resample rate=16000 quality=standard; "
            "log_mel mels=80 tokens=whisper");
}

TEST(AudioChain, RefusalsSayWhatIsAllowed) {
  const auto refusal = [](std::string_view text) {
    const Result<AudioChain> chain = parse_audio_chain(text);
    return chain.ok() ? PreparedAudioChain::prepare(*chain).status().message()
                      : chain.status().message();
  };
  const auto says = [&](std::string_view text, std::string_view part) {
    EXPECT_NE(refusal(text).find(part), std::string::npos) << refusal(text);
  };
  says("monk", "the steps are: decode, mono, resample, fit");
  says("resample rte=3", "it has: rate, quality");
  says("resample quality=best", "one of fast, standard, high");
  says("resample rate=x", "a whole number");
  says("log_mel; mono", "mono cannot follow log_mel");
  says("fit samples=3; chunk samples=3", "chunk cannot follow fit");
  says("fit", "samples must be 1 to");
  says("log_mel mels=129", "mels must be 1 to 128");
  says("mono; resample rate=8000; log_mel", "log_mel takes 16000 Hz");
  says("mono; decode", "decode comes first");
  says("decode max_seconds=0", "max_seconds must be 1");
}

TEST(AudioChain, SoundsThatDoNotFitSayWhatIsMissing) {
  AudioScratch scratch;
  const auto refusal = [&](std::string_view text, const std::string& bytes) {
    return chain_of(text).run(bytes, 0, scratch).status().message();
  };
  const std::string stereo = sound_file(hum(1000, 2, 1), 2, 16000, kWav16);
  EXPECT_NE(refusal("log_mel", stereo).find("put mono first"), std::string::npos);
  const std::string slow = sound_file(hum(1000, 1, 1), 1, 8000, kWav16);
  EXPECT_NE(refusal("log_mel", slow).find("resample rate=16000"), std::string::npos);
  const std::string shortest = sound_file(hum(159, 1, 1), 1, 16000, kWav16);
  EXPECT_NE(refusal("log_mel", shortest).find("too short"), std::string::npos);
  EXPECT_NE(refusal("chunk samples=200 last=drop", shortest).find("less than one chunk"),
            std::string::npos);
  const std::string nothing = sound_file({}, 1, 16000, kWav16);
  EXPECT_NE(refusal("mono", nothing).find("no samples"), std::string::npos);
  EXPECT_NE(refusal("chunk samples=1000000 hop=1", sound_file(hum(1100000, 1, 1), 1, 16000, kWav16))
                .find("more than"),
            std::string::npos);
}

TEST(AudioChain, TokensFollowTheModelsRules) {
  AudioHeader header;
  header.channels = 1;
  header.sample_rate = 16000;
  header.frames = 16000 * 7 + 100;  // 7.006 s
  const auto planned = [&](std::string_view text) {
    return chain_of(text).planned_size(header).value();
  };
  const AudioGeometry whisper = planned("fit samples=480000; log_mel");
  EXPECT_EQ(whisper.frames, 3000);
  EXPECT_EQ(whisper.real_frames, 701);
  EXPECT_EQ(whisper.tokens, 1500);
  const AudioGeometry qwen = planned("fit samples=480000; log_mel mels=128 tokens=qwen2_audio");
  EXPECT_EQ(qwen.real_frames, 701);
  EXPECT_EQ(qwen.tokens, 175);  // ((701 - 1) / 2 + 1 - 2) / 2 + 1
  const AudioGeometry chunks = planned("chunk samples=48000; log_mel tokens=frames");
  EXPECT_EQ(chunks.chunks, 3);
  EXPECT_EQ(chunks.frames, 300);
  EXPECT_EQ(chunks.tokens, 900);
  EXPECT_EQ(chunks.real_frames, 701);
}

TEST(AudioChain, ChunksAndCutsAreWindowsOfTheWhole) {
  AudioScratch scratch;
  const std::vector<int16_t> samples = hum(2500, 2, 6);
  const std::string bytes = sound_file(samples, 2, 16000, kFlac16);
  const auto run = [&](std::string_view text, uint64_t key) {
    const auto outcome = chain_of(text).run(bytes, key, scratch).value();
    std::vector<int16_t> out(outcome.bytes.size() / 2);
    std::memcpy(out.data(), outcome.bytes.data(), outcome.bytes.size());
    return out;
  };
  const std::vector<int16_t> chunks = run("chunk samples=1000 hop=600; pcm16", 0);
  ASSERT_EQ(chunks.size(), size_t{4} * 1000 * 2);
  for (size_t i = 0; i < chunks.size(); ++i) {
    const size_t at = i / 2000 * 1200 + i % 2000;
    ASSERT_EQ(chunks[i], at < samples.size() ? samples[at] : 0);
  }
  EXPECT_EQ(run("pcm16", 0), samples);
  // The key alone decides the place.
  std::vector<size_t> places;
  for (const uint64_t key : {1, 1, 2, 3}) {
    const std::vector<int16_t> cut = run("random_cut samples=500; pcm16", key);
    const auto found = std::search(samples.begin(), samples.end(), cut.begin(), cut.end());
    ASSERT_NE(found, samples.end());
    places.push_back(static_cast<size_t>(found - samples.begin()));
  }
  EXPECT_EQ(places[0], places[1]);
  EXPECT_TRUE(places[1] != places[2] || places[2] != places[3]);
}

}  // namespace
}  // namespace overlord::media
