// Bytes from anywhere: cut off, flipped, spliced. No decoder may crash, take what it would write
// otherwise, or allocate much more than it was given.
#include "overlord/protocol/foreign_bytes_test.h"

#include <gtest/gtest.h>

#include "overlord/protocol/largest_allocation_test.h"

namespace overlord::protocol {
namespace {

// Seats of an index (4 bytes each); inputs are a few kilobytes.
constexpr size_t kMostBytes = kMaxSeats * 4;

TEST(ForeignBytes, GoodInputsAreTaken) {
  for (const bool shared_memory : {false, true}) {
    MadeUpWorld world(1, shared_memory);
    for (const std::string& input : good_inputs(world, 5)) {
      EXPECT_TRUE(takes_bytes(input, world)) << "decoder " << int{input[0]};
    }
  }
}

TEST(ForeignBytes, EveryTruncationIsRefused) {
  MadeUpWorld world(2, true);
  forget_largest_allocation();
  for (const std::string& input : good_inputs(world, 2)) {
    for (size_t size = 0; size < input.size(); ++size) {
      EXPECT_FALSE(takes_bytes(std::string_view(input).substr(0, size), world)) << size;
    }
  }
  EXPECT_LE(largest_allocation(), kMostBytes);
}

TEST(ForeignBytes, EveryFlippedBitIsRefusedOrAnotherValue) {
  MadeUpWorld world(3, true);
  forget_largest_allocation();
  for (std::string input : good_inputs(world, 1)) {
    for (size_t bit = 8; bit < input.size() * 8; ++bit) {
      char& byte = input[bit / 8];
      byte = static_cast<char>(byte ^ (1 << (bit % 8)));
      takes_bytes(input, world);
      byte = static_cast<char>(byte ^ (1 << (bit % 8)));
    }
  }
  EXPECT_LE(largest_allocation(), kMostBytes);
}

// One of: another byte, a number of all ones, a piece left out, a piece of another input.
void mutate(RandomFields& random, const std::vector<std::string>& inputs, std::string* bytes) {
  const size_t at = 1 + random.below(bytes->size() - 1);
  const size_t size = std::min<size_t>(1 + random.below(8), bytes->size() - at);
  const std::string& other = inputs[random.below(inputs.size())];
  switch (random.below(4)) {
    case 0:
      (*bytes)[at] = static_cast<char>(random.below(256));
      break;
    case 1:
      bytes->replace(at, size, std::string(size - 1, '\xff') + '\x7f');
      break;
    case 2:
      bytes->erase(at, std::min(size, bytes->size() - at));
      break;
    default:
      bytes->insert(at, other, random.below(other.size()), size);
  }
}

TEST(ForeignBytes, MutatedInputsAreRefusedOrOtherValues) {
  MadeUpWorld world(4, true);
  const std::vector<std::string> inputs = good_inputs(world, 8);
  RandomFields random(4);
  forget_largest_allocation();
  uint64_t taken = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::string bytes = inputs[random.below(inputs.size())];
    for (uint64_t i = 1 + random.below(3); i > 0 && bytes.size() > 1; --i) {
      mutate(random, inputs, &bytes);
    }
    taken += takes_bytes(bytes, world) ? 1 : 0;
  }
  EXPECT_GT(taken, 1000u);  // else it only ever sees the first check
  EXPECT_LT(taken, 99'000u);
  EXPECT_LE(largest_allocation(), kMostBytes);
}

}  // namespace
}  // namespace overlord::protocol
