// Sounds that were cut, flipped and spliced: no decoder may crash or break its plan.
#include "overlord/media/foreign_sounds_test.h"

#include <gtest/gtest.h>

#include "overlord/base/rng.h"
#include "overlord/media/made_up_sounds_test.h"

namespace overlord::media {
namespace {

TEST(ForeignSounds, NoBytesBreakAPromise) {
  const std::string good[] = {
      sound_file(hum(3000, 1, 1), 1, 16000, kWav16),
      sound_file(hum(900, 2, 1), 2, 44100, kWavFloat),
      sound_file(hum(900, 1, 1), 1, 8000, SF_FORMAT_WAVEX | SF_FORMAT_ULAW),
      sound_file(hum(3000, 2, 2), 2, 44100, kFlac16),
      sound_file(hum(3000, 1, 2), 1, 16000, kOggVorbis),
      sound_file(hum(4800, 1, 2), 1, 48000, kOggOpus),
      sound_file(hum(4800, 1, 2), 1, 16000, kMp3),
  };
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    std::string bytes = good[seed % std::size(good)];
    const auto draw = [&](uint64_t n, uint64_t below) { return uniform_below(seed, 3, n, below); };
    const uint64_t changes = 1 + draw(0, 6);
    for (uint64_t i = 0; i < changes; ++i) {
      // Half of the changes go into the first bytes, where the headers are.
      const uint64_t reach =
          draw(10 * i + 1, 2) ? std::min<uint64_t>(bytes.size(), 120) : bytes.size();
      bytes[draw(10 * i + 2, reach)] = static_cast<char>(draw(10 * i + 3, 256));
    }
    if (draw(7, 4) == 0) bytes.resize(draw(8, bytes.size()));
    takes_sound(bytes);
  }
}

}  // namespace
}  // namespace overlord::media
