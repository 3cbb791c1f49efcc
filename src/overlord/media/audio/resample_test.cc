#include "overlord/media/audio/resample.h"

#include <gtest/gtest.h>

#include <cmath>

#include "overlord/base/hash.h"
#include "overlord/media/audio/made_up_sounds_test.h"
#include "overlord/media/fixed_math.h"

namespace overlord::media {
namespace {

std::vector<float> resampled(const std::vector<float>& in, int32_t from, int32_t to,
                             ResampleQuality quality = ResampleQuality::kStandard) {
  const Resampler filter = Resampler::make(from, to, quality).value();
  const auto frames = static_cast<int64_t>(in.size());
  std::vector<float> out(static_cast<size_t>(filter.length(frames)));
  std::vector<float> padded;
  filter.run(in.data(), frames, padded, out.data());
  return out;
}

std::vector<float> tone(int64_t hz, int64_t rate, int64_t frames) {
  std::vector<float> out;
  for (int64_t t = 0; t < frames; ++t) {
    out.push_back(static_cast<float>(0.5 * sin_of_turn(t * hz, rate)));
  }
  return out;
}

TEST(Resample, LengthIsRoundedUp) {
  EXPECT_EQ(resampled_length(44100, 44100, 16000), 16000);
  EXPECT_EQ(resampled_length(1, 44100, 16000), 1);
  EXPECT_EQ(resampled_length(3, 8000, 16000), 6);
  EXPECT_EQ(resampled_length(44101, 44100, 16000), 16001);
}

// A tone within the band comes out as the same tone at the new rate.
TEST(Resample, TonesInTheBandStayWhatTheyAre) {
  struct Case {
    ResampleQuality quality;
    double error;
  };
  for (const Case& one :
       {Case{ResampleQuality::kFast, 3e-3}, Case{ResampleQuality::kStandard, 2e-4},
        Case{ResampleQuality::kHigh, 1e-5}}) {
    for (const int32_t from : {8000, 11025, 22050, 44100, 48000, 22254}) {
      for (const int64_t hz : {50, 997, 2500}) {
        const std::vector<float> out =
            resampled(tone(hz, from, from / 2), from, 16000, one.quality);
        const std::vector<float> wanted = tone(hz, 16000, 8000);
        // The ends hear the silence beyond them.
        for (size_t i = 400; i + 400 < out.size(); ++i) {
          ASSERT_NEAR(out[i], wanted[i], one.error) << from << " " << hz << " " << i;
        }
      }
    }
  }
}

// A tone above the new band would come back as another one: it must be gone.
TEST(Resample, TonesAboveTheBandAreGone) {
  struct Case {
    ResampleQuality quality;
    double left;
  };
  for (const Case& one :
       {Case{ResampleQuality::kFast, 5e-4}, Case{ResampleQuality::kStandard, 2e-5},
        Case{ResampleQuality::kHigh, 2e-6}}) {
    for (const int64_t hz : {10000, 12000, 20000}) {
      const std::vector<float> out = resampled(tone(hz, 44100, 22050), 44100, 16000, one.quality);
      for (size_t i = 400; i + 400 < out.size(); ++i) ASSERT_NEAR(out[i], 0, one.left) << hz;
    }
  }
}

TEST(Resample, ASteadyLevelStaysIt) {
  const std::vector<float> out = resampled(std::vector<float>(4000, 0.25F), 44100, 16000);
  for (size_t i = 100; i + 100 < out.size(); ++i) ASSERT_NEAR(out[i], 0.25, 1e-7);
}

TEST(Resample, RatesThatNeedHugeTablesAreRefused) {
  const Result<Resampler> made = Resampler::make(999'983, 999'979, ResampleQuality::kHigh);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find("999983 Hz"), std::string::npos);
}

TEST(Resample, IsTheSameBitsOnEveryCpu) {
  std::vector<float> in;
  for (const int16_t sample : hum(10007, 1, 5)) in.push_back(static_cast<float>(sample) / 32768.0F);
  const std::vector<float> out = resampled(in, 44100, 16000);
  EXPECT_EQ(digest_of(out.data(), out.size() * 4).hex(), "945af1e3a216bba836185d8335721276");
}

}  // namespace
}  // namespace overlord::media
