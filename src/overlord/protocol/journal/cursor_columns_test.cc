#include "overlord/protocol/journal/cursor_columns.h"

#include <gtest/gtest.h>

#include <limits>

#include "overlord/base/rng.h"
#include "overlord/model/stream_state.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

struct Written {
  size_t bytes = 0;
  CursorNumbers read;
};

Written there_and_back(const CursorNumbers& earlier, const CursorNumbers& before,
                       const CursorNumbers& after) {
  ByteWriter writer;
  write_columns(&writer, earlier, before, after);
  const std::string bytes = writer.take();
  ByteReader reader(bytes);
  Written written{bytes.size(), read_columns(&reader, earlier, before)};
  EXPECT_TRUE(reader.at_end() && !reader.failed());
  return written;
}

// A mixture that is asked for by weights, as Mixer does it: a step asks a little more or less than
// the one before, of each source its share, and draws some documents of each.
class Asking {
 public:
  Asking(uint32_t sources, size_t unit) : unit_(unit), numbers_(sources * kCursorNumbers) {
    for (uint32_t s = 0; s < sources; ++s) weights_.push_back(1 + below(1000));
  }

  const CursorNumbers& step() {
    const uint64_t time = (uint64_t{900} << model::kDebtBits) + below(uint64_t{99} << 20);
    for (size_t s = 0; s < weights_.size(); ++s) {
      uint64_t* cursor = &numbers_[s * kCursorNumbers];
      const uint64_t samples = below(4), tokens = samples * 200 + below(samples * 100 + 1);
      cursor[kPosition] += samples;
      cursor[kSamples] += samples;
      cursor[kTokens] += tokens;
      const uint64_t drawn = unit_ == kTokens ? tokens : samples;
      debt(&cursor[kDebt], time * weights_[s] / 500 - (drawn << model::kDebtBits));
    }
    return numbers_;
  }

 private:
  static void debt(uint64_t* zigzag, uint64_t change) {
    auto now = static_cast<int64_t>((*zigzag >> 1) ^ (uint64_t{0} - (*zigzag & 1)));
    now = static_cast<int64_t>(static_cast<uint64_t>(now) + change);
    *zigzag = (static_cast<uint64_t>(now) << 1) ^ static_cast<uint64_t>(now >> 63);
  }
  uint64_t below(uint64_t limit) { return uniform_below(3, draws_++, 0, limit); }

  const size_t unit_;
  CursorNumbers numbers_;
  std::vector<uint64_t> weights_;
  uint64_t draws_ = 0;
};

TEST(CursorColumns, WhatWasAskedTellsTheDebts) {
  constexpr uint32_t kSources = 306;
  for (const size_t unit : {kSamples, kTokens}) {
    Asking asking(kSources, unit);
    CursorNumbers earlier = asking.step(), before = asking.step();
    for (int step = 0; step < 10; ++step) {
      const CursorNumbers after = asking.step();
      const Written blind = there_and_back({}, before, after);
      const Written told = there_and_back(earlier, before, after);
      EXPECT_EQ(blind.read, after);
      EXPECT_EQ(told.read, after);
      // A byte for each debt, which is within a few units of its guess, for four or five.
      EXPECT_LE(told.bytes + 3 * kSources, blind.bytes);
      earlier = before;
      before = after;
    }
  }
}

TEST(CursorColumns, AnyNumbersComeBack) {
  const std::vector<uint64_t> some = {0, 1, 2, 1000, kMost, kMost - 1, kMost / 2, kMost / 2 + 1};
  uint64_t draws = 0;
  const auto made_up = [&] {
    CursorNumbers numbers(5 * kCursorNumbers);
    for (uint64_t& number : numbers) number = some[uniform_below(4, draws++, 0, some.size())];
    return numbers;
  };
  for (int trial = 0; trial < 500; ++trial) {
    const CursorNumbers earlier = made_up(), before = made_up(), after = made_up();
    EXPECT_EQ(there_and_back(earlier, before, after).read, after);
    EXPECT_EQ(there_and_back({}, before, after).read, after);
  }
}

}  // namespace
}  // namespace overlord::protocol
