#include "overlord/protocol/journal/state_difference.h"

#include <gtest/gtest.h>

#include "overlord/protocol/journal/random_records_test.h"
#include "overlord/protocol/largest_allocation_test.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {
namespace {

constexpr size_t kLimit = 1 << 16;

std::string state_of_seed(uint64_t seed, uint32_t sources) {
  RandomFields random(seed);
  return encode_stream_state(*random_state(random, sources));
}

// States with equally many cursors, with others, and bytes that are no states.
std::vector<std::string> some_states() {
  std::vector<std::string> states = {"", "x", std::string(5000, 'y'), "a state"};
  for (const uint32_t sources : {1, 5, 306}) {
    RandomFields random(sources);
    model::StreamState state = *random_state(random, sources);
    for (int step = 0; step < 2; ++step) {
      states.push_back(encode_stream_state(state));
      move_cursors(random, 1 + sources / 3, &state);
    }
  }
  states.push_back(states.back().substr(0, states.back().size() / 2));
  return states;
}

TEST(StateDifference, GivesTheStateAfterBackToTheByte) {
  StateDifferences differences;
  const std::vector<std::string> states = some_states();
  for (const std::string& before : states) {
    for (const std::string& after : states) {
      const std::string difference = differences.difference({before}, after);
      const auto got = differences.apply_difference({before}, difference, kLimit);
      ASSERT_TRUE(got.ok()) << got.status().message();
      EXPECT_EQ(*got, after);
    }
  }
}

// As zstd 1.5.4 wrote it: whatever writes other bytes must still read these.
TEST(StateDifference, OldBytesAreRead) {
  model::StreamState state;
  state.next_step = 7;
  state.cursors = {{1, 1000, -5, 2000, 70'000, 3, 0, false}, {2, 9, 0, 11, 12, 13, 14, false}};
  for (uint32_t i = 0; i < 20; ++i) {
    state.carried.push_back({{0, 1, 900 + i * i}, 0, 300 + 7 * i, 300 + 7 * i, 5, {}, false, {}});
  }
  const std::string before = encode_stream_state(state);
  state.cursors[0] = {1, 1000, 900, 2003, 71'500, 3, 0, false};
  state.carried.erase(state.carried.begin() + 5);
  const unsigned char old[] = {0xba, 0xd2, 0xd3, 0x18, 0x8e, 0x37, 0xd9, 0x22, 0x28, 0xb5, 0x2f,
                               0xfd, 0x24, 0x20, 0x01, 0x01, 0x00, 0x03, 0xdf, 0xff, 0x0f, 0x04,
                               0x07, 0x00, 0x00, 0x02, 0x10, 0x00, 0x00, 0x00, 0x00, 0x06, 0x00,
                               0xb8, 0x17, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x92,
                               0x0e, 0x92, 0x0e, 0x00, 0x00, 0xbd, 0x06, 0xfa, 0x02};
  const std::string_view bytes(reinterpret_cast<const char*>(old), sizeof(old));
  const auto after = StateDifferences().apply_difference({before}, bytes, kLimit);
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_EQ(*after, encode_stream_state(state));
}

TEST(StateDifference, WhateverIsKnownOfEarlierStates) {
  StateDifferences differences;
  const std::vector<std::string> states = some_states();
  for (const std::string& earlier : states) {
    for (const std::string& last : states) {
      const StatesBefore before{last, earlier};
      const std::string difference = differences.difference(before, states[7]);
      const auto got = differences.apply_difference(before, difference, kLimit);
      ASSERT_TRUE(got.ok()) << got.status().message();
      EXPECT_EQ(*got, states[7]);
      const std::string wrong = earlier + "!";
      const StatesBefore other{last, wrong};
      EXPECT_EQ(differences.apply_difference(other, difference, kLimit).status().code(),
                Code::kBadData);
    }
  }
}

TEST(StateDifference, DoesNotDependOnWhatItsContextDidBefore) {
  StateDifferences used;
  const std::vector<std::string> states = some_states();
  for (const std::string& before : states) {
    for (const std::string& after : states) {
      EXPECT_EQ(used.difference({before}, after), StateDifferences().difference({before}, after));
    }
  }
}

TEST(StateDifference, OfEqualStatesIsTiny) {
  const std::string state = state_of_seed(1, 306);
  ASSERT_GT(state.size(), 5000u);
  EXPECT_LE(StateDifferences().difference({state}, state).size(), 64u);
  const std::string text(5000, 'z');
  EXPECT_LE(StateDifferences().difference({text}, text).size(), 64u);
}

TEST(StateDifference, ToAnotherStateIsRefused) {
  StateDifferences differences;
  const std::string difference = differences.difference({state_of_seed(1, 9)}, state_of_seed(2, 9));
  for (const std::string& before : {state_of_seed(3, 9), state_of_seed(2, 9), std::string()}) {
    const auto got = differences.apply_difference({before}, difference, kLimit);
    EXPECT_EQ(got.status().code(), Code::kBadData);
  }
  EXPECT_TRUE(differences.apply_difference({state_of_seed(1, 9)}, difference, kLimit).ok());
}

TEST(StateDifference, EveryCutAndEveryFlippedBitIsRefused) {
  StateDifferences differences;
  const std::string before = state_of_seed(1, 5);
  std::string difference = differences.difference({before}, state_of_seed(2, 5));
  for (size_t size = 0; size < difference.size(); ++size) {
    const std::string_view cut = std::string_view(difference).substr(0, size);
    EXPECT_EQ(differences.apply_difference({before}, cut, kLimit).status().code(), Code::kBadData);
  }
  for (size_t bit = 0; bit < difference.size() * 8; ++bit) {
    flip(&difference, bit);
    EXPECT_EQ(differences.apply_difference({before}, difference, kLimit).status().code(),
              Code::kBadData);
    flip(&difference, bit);
  }
}

// A frame as if it had been written for `before`.
std::string sealed(std::string_view before, std::string_view frame) {
  ByteWriter writer;
  writer.u64(hash64(frame.data(), frame.size(), hash64(before.data(), before.size())));
  writer.raw(frame.data(), frame.size());
  return writer.take();
}

// Behind the checksum: what zstd and the columns make of a frame that nobody wrote.
TEST(StateDifference, AForgedFrameIsRefusedOrAState) {
  StateDifferences differences;
  const std::string before = state_of_seed(1, 5);
  std::string frame = differences.difference({before}, state_of_seed(2, 5)).substr(8);
  forget_largest_allocation();
  uint64_t refused = 0;
  for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
    flip(&frame, bit);
    const auto got = differences.apply_difference({before}, sealed(before, frame), kLimit);
    EXPECT_TRUE(got.ok() || got.status().code() == Code::kBadData);
    refused += got.ok() ? 0 : 1;
    flip(&frame, bit);
  }
  EXPECT_GT(refused, frame.size() * 7);
  EXPECT_LE(largest_allocation(), kLimit + 1000);
}

TEST(StateDifference, AStateBeyondTheLimitIsRefusedBeforeItIsMade) {
  StateDifferences differences;
  const std::string before = state_of_seed(1, 5);
  const std::string bomb = differences.difference({before}, std::string(8 << 20, 'b'));
  ASSERT_LT(bomb.size(), 4000u);
  forget_largest_allocation();
  EXPECT_EQ(differences.apply_difference({before}, bomb, kLimit).status().code(), Code::kBadData);
  // A frame that says it has 2^40 bytes: eight bytes of size, nothing behind them.
  std::string liar("\x28\xb5\x2f\xfd\xe0\0\0\0\0\0\1\0\0\1\0\0", 16);
  EXPECT_EQ(differences.apply_difference({before}, sealed(before, liar), kLimit).status().code(),
            Code::kBadData);
  EXPECT_LE(largest_allocation(), 8000u);
}

TEST(StateDifference, TheLimitIsOfTheState) {
  StateDifferences differences;
  for (const std::string& before : some_states()) {
    for (const std::string& after : some_states()) {
      if (after.empty()) continue;
      const std::string difference = differences.difference({before}, after);
      EXPECT_TRUE(differences.apply_difference({before}, difference, after.size()).ok());
      EXPECT_EQ(
          differences.apply_difference({before}, difference, after.size() - 1).status().code(),
          Code::kBadData);
    }
  }
}

}  // namespace
}  // namespace overlord::protocol
