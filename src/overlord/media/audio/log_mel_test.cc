#include "overlord/media/audio/log_mel.h"

#include <gtest/gtest.h>

#include <cmath>

#include "overlord/base/hash.h"
#include "overlord/media/audio/log_mel_reference_test.h"
#include "overlord/media/audio/made_up_sounds_test.h"
#include "overlord/media/fixed_math.h"

namespace overlord::media {
namespace {

std::vector<float> floats_of(const std::vector<int16_t>& samples) {
  std::vector<float> out;
  for (const int16_t sample : samples) out.push_back(static_cast<float>(sample) / 32768.0F);
  return out;
}

std::vector<float> log_mel(const std::vector<float>& samples, int32_t mels) {
  const LogMel rule(mels);
  const auto count = static_cast<int64_t>(samples.size());
  std::vector<float> out(static_cast<size_t>(LogMel::frames(count) * mels), -100.0F);
  std::vector<float> padded;
  rule.run(samples.data(), count, padded, out.data());
  return out;
}

// The definition, word by word, in double precision and without a fast transform.
std::vector<double> plain_log_mel(const std::vector<float>& samples, int32_t mels) {
  const auto count = static_cast<int64_t>(samples.size());
  const int64_t frames = count / 160;
  const LogMel rule(mels);
  std::vector<double> out(static_cast<size_t>(frames * mels));
  double most = -10;
  for (int64_t f = 0; f < frames; ++f) {
    std::vector<double> power;
    for (int32_t k = 0; k < 201; ++k) {
      double re = 0;
      double im = 0;
      for (int64_t n = 0; n < 400; ++n) {
        int64_t at = f * 160 + n - 200;
        while (at < 0 || at >= count) at = at < 0 ? -at : 2 * (count - 1) - at;
        const double weighted = samples[static_cast<size_t>(at)] *
                                (0.5 - 0.5 * std::cos(2 * kPi * static_cast<double>(n) / 400));
        re += weighted * std::cos(2 * kPi * static_cast<double>(k * n % 400) / 400);
        im += weighted * std::sin(2 * kPi * static_cast<double>(k * n % 400) / 400);
      }
      power.push_back(re * re + im * im);
    }
    for (int32_t m = 0; m < mels; ++m) {
      const LogMel::Filter& filter = rule.filters()[static_cast<size_t>(m)];
      double sum = 0;
      for (size_t k = 0; k < filter.weights.size(); ++k) {
        sum += filter.weights[k] * power[static_cast<size_t>(filter.first) + k];
      }
      const double value = std::log10(std::max(sum, 1e-10));
      most = std::max(most, value);
      out[static_cast<size_t>(m * frames + f)] = value;
    }
  }
  for (double& value : out) value = (std::max(value, most - 8) + 4) / 4;
  return out;
}

TEST(LogMel, IsWithinItsToleranceOfTheKeptReference) {
  const std::vector<float> samples = floats_of(hum(16037, 1, 3));
  for (const int32_t mels : {80, 128}) {
    const std::vector<float> values = log_mel(samples, mels);
    ASSERT_EQ(values.size(), static_cast<size_t>(100 * mels));
    for (const LogMelReference& one : kLogMelReference) {
      if (one.mels != mels) continue;
      EXPECT_NEAR(values[static_cast<size_t>(one.mel * 100 + one.frame)], one.value, 1e-5);
    }
  }
}

TEST(LogMel, FollowsTheDefinitionAtEveryLength) {
  for (const int64_t count : {160, 161, 200, 320, 401, 799, 1000, 1601}) {
    const std::vector<float> samples = floats_of(hum(count, 1, static_cast<uint32_t>(count)));
    const std::vector<float> ours = log_mel(samples, 80);
    const std::vector<double> reference = plain_log_mel(samples, 80);
    ASSERT_EQ(ours.size(), reference.size());
    for (size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], reference[i], 1e-5) << count;
  }
}

TEST(LogMel, QuietTonesBesideLoudOnesStayWithinTheStatedTolerance) {
  // Nearly the whole range that the definition keeps: a full tone, and one 75 dB below it.
  std::vector<float> samples;
  for (int t = 0; t < 3200; ++t) {
    samples.push_back(static_cast<float>(0.9 * sin_of_turn(t, 40) + 1.6e-4 * sin_of_turn(t, 5)));
  }
  const std::vector<float> ours = log_mel(samples, 80);
  const std::vector<double> reference = plain_log_mel(samples, 80);
  for (size_t i = 0; i < ours.size(); ++i) ASSERT_NEAR(ours[i], reference[i], 2e-4);
}

TEST(LogMel, SilenceIsTheFloor) {
  for (const float value : log_mel(std::vector<float>(16000), 80)) EXPECT_NEAR(value, -1.5, 1e-6);
}

TEST(LogMel, IsTheSameBitsOnEveryCpu) {
  const std::vector<float> values = log_mel(floats_of(hum(16037, 1, 3)), 80);
  EXPECT_EQ(digest_of(values.data(), values.size() * 4).hex(), "f82076b945a8bee69fde06237d5f9f22");
}

TEST(FixedMath, AgreesWithTheLibrary) {
  for (int64_t n = -50; n < 450; ++n) {
    for (const int64_t d : {1, 3, 7, 200, 400, 441}) {
      const double angle = 2 * kPi * static_cast<double>(n % d) / static_cast<double>(d);
      EXPECT_NEAR(sin_of_turn(n, d), std::sin(angle), 1e-13);
      EXPECT_NEAR(cos_of_turn(n, d), std::cos(angle), 1e-13);
    }
  }
  for (double x = -20; x < 20; x += 0.37) {
    EXPECT_NEAR(fixed_exp(x) / std::exp(x), 1, 1e-12);
    EXPECT_NEAR(fixed_log(std::exp(x)), x, 1e-13);
  }
  // I0(9 sqrt(1 - 0.3^2)) / I0(9), by another program.
  EXPECT_NEAR(KaiserWindow(9).at(0.3), 0.6769186072077025, 1e-14);
  EXPECT_NEAR(KaiserWindow(12).at(0), 1, 1e-14);
}

}  // namespace
}  // namespace overlord::media
