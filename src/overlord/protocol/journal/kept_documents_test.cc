#include "overlord/protocol/journal/kept_documents.h"

#include <gtest/gtest.h>

#include "overlord/protocol/journal/random_records_test.h"
#include "overlord/protocol/state_codec.h"

namespace overlord::protocol {
namespace {

model::StreamState some_state(uint32_t documents) {
  model::StreamState state;
  state.next_step = 9;
  for (uint64_t s = 0; s < 4; ++s) state.cursors.push_back({1, 100 + s, 0, 500, 9000, 0, 0, false});
  for (uint32_t i = 0; i < documents; ++i) {
    state.carried.push_back({{i % 4, 1, 50 + i}, 0, 300 + i, 300 + i, 7, {}, false, {}});
  }
  return state;
}

std::string there_and_back(const std::string& before, const std::string& after) {
  const Result<std::string> got = with_kept(before, without_kept(before, after));
  EXPECT_TRUE(got.ok()) << got.status().message();
  return got.ok() ? *got : "";
}

// Cursors move on and steps pass: what is kept is the document, not how it is written.
TEST(KeptDocuments, AreABitEach) {
  const model::StreamState then = some_state(40);
  model::StreamState now = then;
  ++now.next_step;
  for (model::SourceCursor& cursor : now.cursors) cursor.position += 20;
  std::erase_if(now.carried, [](const model::Carried& one) { return one.id.position % 3 == 0; });
  const size_t kept = now.carried.size();
  now.carried.push_back({{2, 1, 110}, 0, 44, 44, 9, {}, false, {}});
  const std::string before = encode_stream_state(then), after = encode_stream_state(now);
  const Leftover leftover = without_kept(before, after);
  EXPECT_EQ(leftover.kept.size(), 5u);
  EXPECT_EQ(decode_stream_state(leftover.state)->carried.size(), now.carried.size() - kept);
  EXPECT_EQ(there_and_back(before, after), after);
}

TEST(KeptDocuments, ThoseInAnotherOrderOrChangedAreToldAgain) {
  const model::StreamState then = some_state(40);
  const std::string before = encode_stream_state(then);
  model::StreamState now = then;
  std::reverse(now.carried.begin(), now.carried.end());
  EXPECT_EQ(there_and_back(before, encode_stream_state(now)), encode_stream_state(now));
  now = then;
  now.carried[0].first = 5;
  EXPECT_EQ(without_kept(before, encode_stream_state(now)).kept, "");
  now.carried.clear();
  EXPECT_EQ(there_and_back(before, encode_stream_state(now)), encode_stream_state(now));
}

TEST(KeptDocuments, AnyBytesComeBack) {
  std::vector<std::string> some = {"", "x", std::string(300, 'y'),
                                   encode_stream_state(some_state(0)),
                                   encode_stream_state(some_state(9))};
  for (const uint32_t sources : {1, 5}) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      RandomFields random(seed);
      some.push_back(encode_stream_state(*random_state(random, sources)));
    }
  }
  for (const std::string& before : some) {
    for (const std::string& after : some) EXPECT_EQ(there_and_back(before, after), after);
  }
}

TEST(KeptDocuments, WhatNobodyWroteIsRefused) {
  const std::string before = encode_stream_state(some_state(9));
  model::StreamState other = some_state(0);
  other.cursors.resize(1);
  const auto foreign = with_kept(before, {"\xff", encode_stream_state(other)});
  EXPECT_EQ(foreign.status().code(), Code::kBadData);
  EXPECT_EQ(with_kept(before, {"\xff", "no state"}).status().code(), Code::kBadData);
  EXPECT_EQ(with_kept("no state", {"\xff", before}).status().code(), Code::kBadData);
}

}  // namespace
}  // namespace overlord::protocol
