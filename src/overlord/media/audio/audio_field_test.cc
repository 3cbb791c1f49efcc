// Needs codecs: AUDIO
#include <gtest/gtest.h>

#include <cstring>

#include "overlord/media/audio/audio_chain.h"
#include "overlord/media/audio/made_up_sounds_test.h"
#include "overlord/media/field_chain.h"

namespace overlord::media {
namespace {

const KindOfMedia& sounds() { return kind_of_media(model::MediaKind::kAudio); }

TEST(AudioField, RowsArePartsOfOneLengthOrFramesOrSamples) {
  const std::string bytes = sound_file(hum(9000, 2, 5), 2, 44100, kFlac16);
  const auto header = sounds().probe({bytes, bytes.size()});
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(*header, (HeaderValues{44100, 2, 9000}));
  const struct {
    const char* text;
    std::vector<uint32_t> shape;
    uint32_t rows;
  } cases[] = {
      {"mono; resample; log_mel mels=16", {16}, 20},
      {"mono; resample; fit samples=4000; log_mel mels=16", {16, 25}, 1},
      {"mono; resample; random_cut samples=800; log_mel mels=16", {16, 5}, 1},
      {"mono; resample; chunk samples=1600 hop=800; log_mel mels=16", {16, 10}, 4},
      {"mono; resample", {}, 3266},
      {"mono; resample; pcm16", {}, 3266},
      {"mono; resample; chunk samples=1000; pcm16", {1000}, 4},
  };
  AudioScratch scratch;
  for (const auto& one : cases) {
    const auto chain = sounds().prepare(one.text);
    ASSERT_TRUE(chain.ok()) << one.text << ": " << chain.status().message();
    EXPECT_EQ(sounds().prepare((*chain)->text()).value()->text(), (*chain)->text());
    const FieldRows& rows = (*chain)->rows();
    EXPECT_EQ(rows.shape, one.shape) << one.text;
    const auto plan = (*chain)->planned(*header, bytes.size());
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    EXPECT_EQ(plan->shape.rows, one.rows) << one.text;
    const model::MediaLayout layout{"audio", rows.element, rows.shape};
    EXPECT_EQ(plan->shape.rows * layout.row_bytes(), plan->size_bytes) << one.text;
    auto alone = PreparedAudioChain::prepare(parse_audio_chain(one.text).value())
                     ->run(bytes, 7, scratch)
                     .value();
    EXPECT_EQ(plan->tokens, alone.geometry.tokens);
    EXPECT_EQ(plan->parts, alone.geometry.chunks);
    EXPECT_EQ(plan->shape.t, alone.geometry.chunks);
    std::vector<uint8_t> out(plan->size_bytes);
    const Status made = (*chain)->run(bytes, *header, 7, out);
    ASSERT_TRUE(made.ok()) << made.message();
    if (rows.tells_tokens && one.shape.size() == 1) {  // frame by frame, the chain's mel by mel
      std::vector<uint8_t> turned(out.size());
      for (size_t mel = 0; mel < 16; ++mel) {
        for (size_t frame = 0; frame < one.rows; ++frame) {
          std::memcpy(&turned[(frame * 16 + mel) * 4], &alone.bytes[(mel * one.rows + frame) * 4],
                      4);
        }
      }
      alone.bytes = turned;
    }
    EXPECT_EQ(out, alone.bytes) << one.text;
  }
}

TEST(AudioField, SoundsWithoutARowInCommonAreRefused) {
  for (const auto& [text, reason] :
       {std::pair{"resample; pcm16", "channels"}, std::pair{"mono; fit samples=100", "rates"},
        std::pair{"mono; resample; fit samples=100; log_mel", "too short"},
        std::pair{"orient", "orient"}}) {
    const auto chain = sounds().prepare(text);
    ASSERT_FALSE(chain.ok()) << text;
    EXPECT_EQ(chain.status().code(), Code::kInvalidArgument);
    EXPECT_NE(chain.status().message().find(reason), std::string::npos) << chain.status().message();
  }
}

TEST(AudioField, AnotherHeaderThanPromisedIsRefused) {
  const std::string bytes = sound_file(hum(4000, 1, 5), 1, 16000, kWav16);
  const auto chain = sounds().prepare("mono; resample; fit samples=160").value();
  std::vector<float> out(160);
  const std::span<uint8_t> room(reinterpret_cast<uint8_t*>(out.data()), 640);
  EXPECT_TRUE(chain->run(bytes, {16000, 1, 4000}, 0, room).ok());
  for (const HeaderValues promised :
       {HeaderValues{8000, 1, 4000}, {16000, 2, 4000}, {16000, 1, 3999}, {16000, 1, 4000, 1}}) {
    const Status status = chain->run(bytes, promised, 0, room);
    EXPECT_EQ(status.code(), Code::kBadData);
    EXPECT_NE(status.message().find("the sound has 4000 samples of 1 channel at 16000 Hz"),
              std::string::npos)
        << status.message();
  }
}

TEST(AudioField, LimitsAndStepsRefuseBeforeDecoding) {
  const auto chain = sounds().prepare("decode max_seconds=10; resample; log_mel").value();
  EXPECT_TRUE(chain->planned({16000, 1, 160000}, 100000).ok());
  EXPECT_FALSE(chain->planned({16000, 1, 176000}, 100000).ok());  // seconds
  EXPECT_FALSE(chain->planned({16000, 2, 16000}, 100000).ok());   // not one channel
  EXPECT_FALSE(chain->planned({16000, 1, 100}, 100000).ok());     // less than a frame
  EXPECT_FALSE(chain->planned({16000, 1, 0, 1}, 100000).ok());    // 2^32 samples
}

}  // namespace
}  // namespace overlord::media
