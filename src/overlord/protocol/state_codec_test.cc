#include "overlord/protocol/state_codec.h"

#include <gtest/gtest.h>

#include <string>

#include "overlord/base/bytes.h"

namespace overlord::protocol {
namespace {

ResumeState sample_state(size_t sources) {
  ResumeState state;
  state.stream = "train";
  state.microbatch = 3;
  state.config = {1, 2};
  state.manifest = {3, 4};
  state.sections = {{"stream", {5, 6}}, {"mixture", {7, 8}}};
  state.state.next_step = 1'000'000;
  for (size_t s = 0; s < sources; ++s) {
    state.source_names.push_back("a-source-with-a-usual-name-" + std::to_string(s));
    state.source_digests.push_back({s, s});
    state.sections.push_back({"source:" + state.source_names.back(), {s, 9}});
    model::SourceCursor cursor;
    cursor.pass = 3;
    cursor.position = 123'456'789 + s;
    cursor.debt = -static_cast<int64_t>(s) * 1'000'000;
    cursor.samples = 1'000'000'000 + s;
    cursor.tokens = 1'000'000'000'000 + s;
    state.state.cursors.push_back(cursor);
  }
  return state;
}

void carry(ResumeState* state, size_t documents) {
  for (size_t i = 0; i < documents; ++i) {
    model::Carried carried;
    carried.id = {static_cast<uint32_t>(i % state->state.cursors.size()), 3, 123'456'700 + i % 50};
    carried.tokens = 700;
    carried.end = 700;
    carried.drawn_step = state->state.next_step - 1;
    state->state.carried.push_back(carried);
  }
}

// As after a long run with ado, whose memory is the largest.
void steer(ResumeState* state, uint32_t delay) {
  const size_t sources = state->state.cursors.size();
  model::ControllerState& controller = state->state.controller;
  controller.kind = model::ControllerKind::kAdo;
  controller.delay = delay;
  controller.updates = 1'000'000;
  for (size_t s = 0; s < sources; ++s) {
    model::SourceMemory memory;
    memory.weight = memory.history = memory.average = 14'000'000 + static_cast<int64_t>(s);
    memory.tokens = 7'000'000'000;
    memory.since_loss = 75'000'000'000;
    memory.since_tokens = 6'000'000;
    memory.alpha = 300'000ll << model::kFitCoarseBits;
    memory.log_beta = 2'200'000ll << model::kFitCoarseBits;
    for (int64_t i = 0; i < 8; ++i) memory.points.push_back({20'000 + 400 * i, 48'000 - i});
    controller.sources.push_back(memory);
  }
  for (uint32_t back = delay; back > 0; --back) {
    model::StepFeedback feedback{state->state.next_step - back, {}, {}};
    for (SourceIndex s = 0; s < sources; ++s) {
      feedback.losses.push_back({s, 6'800 * 12'000, 6'800});
    }
    state->feedback.push_back(feedback);
  }
}

TEST(ResumeState, ControllerAndFeedbackSurviveARoundTrip) {
  ResumeState state = sample_state(4);
  carry(&state, 3);
  steer(&state, 5);
  state.feedback[2].losses.erase(state.feedback[2].losses.begin() + 1);
  state.feedback[1].weights = {1, 2, 3, 4};
  const std::string bytes = encode_resume_state(state);
  const auto decoded = decode_resume_state(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded->state.controller, state.state.controller);
  EXPECT_EQ(decoded->feedback, state.feedback);
  EXPECT_EQ(encode_resume_state(*decoded), bytes);
}

TEST(StateParts, AreTheStateCutAtItsCursors) {
  ResumeState saved = sample_state(4);
  carry(&saved, 3);
  const std::string bytes = encode_stream_state(saved.state);
  const StateParts parts = state_parts(bytes);
  ASSERT_EQ(parts.cursors.size(), 4 * kCursorNumbers);
  for (size_t s = 0; s < 4; ++s) {
    const uint64_t* numbers = &parts.cursors[s * kCursorNumbers];
    EXPECT_EQ(numbers[1], saved.state.cursors[s].position);
    EXPECT_EQ(numbers[4], saved.state.cursors[s].tokens);
    EXPECT_EQ(numbers[7], saved.state.cursors[s].dry ? 1u : 0u);
  }
  ByteWriter writer;
  writer.raw(parts.head.data(), parts.head.size());
  for (const uint64_t number : parts.cursors) writer.varint(number);
  writer.raw(parts.tail.data(), parts.tail.size());
  EXPECT_EQ(writer.bytes(), bytes);
  EXPECT_EQ(parts.tail.front(), 3);  // documents that are carried
}

TEST(StateParts, OfOtherBytesAreAllTail) {
  const std::string whole = encode_stream_state(sample_state(4).state);
  for (const std::string& bytes : {std::string(), std::string("no state"), whole.substr(0, 40)}) {
    const StateParts parts = state_parts(bytes);
    EXPECT_TRUE(parts.cursors.empty());
    EXPECT_TRUE(parts.head.empty());
    EXPECT_EQ(parts.tail, bytes);
  }
}

TEST(ResumeState, WithAControllerStaysSmall) {
  ResumeState state = sample_state(306);
  carry(&state, 200);
  steer(&state, 8);
  EXPECT_LT(encode_resume_state(state).size(), 62u << 10);
}

TEST(ResumeState, WithoutAControllerItIsOfTheOldFormat) {
  EXPECT_EQ(encode_resume_state(sample_state(2))[4], 1);
  ResumeState state = sample_state(2);
  steer(&state, 1);
  EXPECT_EQ(encode_resume_state(state)[4], 2);
}

void add_columns(ResumeState* state) {
  state->columns = {"image_patches", "quality"};
  for (size_t i = 0; i < state->state.carried.size(); ++i) {
    state->state.carried[i].columns = {static_cast<int64_t>(i) * 1000, 0xffffffff};
  }
}

TEST(ResumeState, MetadataColumnsSurviveARoundTrip) {
  ResumeState state = sample_state(3);
  carry(&state, 7);
  const std::string without = encode_resume_state(state);
  EXPECT_EQ(without[4], 1);
  add_columns(&state);
  state.state.carried[3].masked = true;
  state.state.carried[3].spans = {{3, 4}};
  const std::string bytes = encode_resume_state(state);
  EXPECT_EQ(bytes[4], 3);
  const auto decoded = decode_resume_state(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(decoded->columns, state.columns);
  for (size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(decoded->state.carried[i].columns, state.state.carried[i].columns);
  }
  EXPECT_EQ(encode_resume_state(*decoded), bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_resume_state(std::string_view(bytes).substr(0, size)).ok());
  }
  steer(&state, 2);
  EXPECT_EQ(decode_resume_state(encode_resume_state(state))->feedback, state.feedback);
}

TEST(ResumeState, InsideAStepItIsBoundToItsLayout) {
  for (const bool columns : {false, true}) {
    ResumeState state = sample_state(3);
    carry(&state, 2);
    if (columns) add_columns(&state);
    state.microbatch = 0;
    const std::string boundary = encode_resume_state(state);
    EXPECT_EQ(*bound_state(boundary, "dp=2,tp=2"), boundary);
    state.microbatch = 3;
    steer(&state, 2);
    const auto bytes = bound_state(encode_resume_state(state), "dp=2,tp=2");
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    EXPECT_EQ((*bytes)[4], 4);
    const auto decoded = decode_resume_state(*bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    EXPECT_EQ(decoded->layout, "dp=2,tp=2");
    EXPECT_EQ(decoded->microbatch, 3u);
    EXPECT_EQ(decoded->columns, state.columns);
    EXPECT_EQ(decoded->feedback, state.feedback);
    EXPECT_EQ(encode_resume_state(*decoded), *bytes);
    for (size_t size = 0; size < bytes->size(); ++size) {
      EXPECT_FALSE(decode_resume_state(std::string_view(*bytes).substr(0, size)).ok());
    }
  }
}

TEST(ResumeState, WithBinsItHasAllOfIt) {
  for (const bool whole : {false, true}) {
    ResumeState state = sample_state(3);
    state.bins = {{0, 64}, {1000, 128}};
    state.state.totals = {640, 5000, 40'000};
    carry(&state, 3);
    if (whole) {
      add_columns(&state);
      steer(&state, 2);
      state.microbatch = 2;
      state.layout = "dp=2";
      state.state.carried[1].joined = true;
    } else {
      state.microbatch = 0;
    }
    const std::string bytes = encode_resume_state(state);
    EXPECT_EQ(bytes[4], 5);
    const auto decoded = decode_resume_state(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    EXPECT_EQ(decoded->bins, state.bins);
    EXPECT_EQ(decoded->layout, state.layout);
    EXPECT_EQ(decoded->state.totals, state.state.totals);
    EXPECT_EQ(decoded->state.carried, state.state.carried);
    EXPECT_EQ(encode_resume_state(*decoded), bytes);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode_resume_state(std::string_view(bytes).substr(0, size)).ok());
    }
  }
}

TEST(ResumeState, ALayoutAtAStepBoundaryMakesNoSense) {
  ResumeState state = sample_state(2);
  state.microbatch = 0;
  state.layout = "dp=2";
  EXPECT_EQ(decode_resume_state(encode_resume_state(state)).status().code(), Code::kBadData);
}

TEST(ResumeState, CarriedColumnsMustBeThoseOfTheJob) {
  ResumeState state = sample_state(3);
  carry(&state, 2);
  add_columns(&state);
  state.columns.pop_back();
  EXPECT_EQ(decode_resume_state(encode_resume_state(state)).status().code(), Code::kBadData);
}

TEST(ResumeState, ColumnsAreFoundByNameWhereSourcesWereDeclaredNew) {
  model::JobSpec spec;
  model::Manifest manifest;
  for (const char* name : {"a", "b"}) {
    spec.sources.emplace_back().name = name;
    spec.sources.back().metadata_columns = {std::string("of_") + name};
    manifest.sources.emplace_back().name = name;
  }
  spec.columns = {"of_a", "of_b"};
  spec.stream = "train";
  ResumeState saved;
  saved.stream = "train";
  saved.sections = section_digests(spec);
  saved.sections.pop_back();
  saved.sections[1].digest = {};
  saved.source_names = {"a"};
  saved.source_digests = {manifest.sources[0].digest};
  saved.columns = {"of_a"};
  saved.state.cursors.resize(1);
  saved.state.carried.push_back({{0, 0, 0}, 0, 5, 5, 0, {}, false, {77}});
  const auto state = adapt_state(saved, spec, manifest, {true, true});
  ASSERT_TRUE(state.ok()) << state.status().message();
  EXPECT_EQ(state->carried[0].columns, (std::vector<int64_t>{77, 0}));
  spec.columns = {"of_0", "of_a"};
  EXPECT_EQ(adapt_state(saved, spec, manifest, {true, true})->carried[0].columns,
            (std::vector<int64_t>{0, 77}));
}

TEST(ResumeState, SurvivesARoundTrip) {
  ResumeState state = sample_state(4);
  carry(&state, 9);
  state.state.carried[2].masked = true;
  state.state.carried[2].spans = {{3, 4}, {10, 1}};
  state.state.carried[4].first = 128;
  state.state.carried[4].end = 256;
  const std::string bytes = encode_resume_state(state);
  const auto decoded = decode_resume_state(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ(encode_resume_state(*decoded), bytes);
  EXPECT_EQ(decoded->state.cursors, state.state.cursors);
  EXPECT_EQ(decoded->state.carried[4].first, 128u);
  EXPECT_EQ(decoded->state.carried[2].spans.size(), 2u);
  EXPECT_EQ(decoded->microbatch, 3u);
}

TEST(ResumeState, StaysSmallAt306Sources) {
  ResumeState state = sample_state(306);
  carry(&state, 1000);
  // The face deflates it and adds a readable mirror; together they must stay under 64 KiB.
  EXPECT_LT(encode_resume_state(state).size(), 40u * 1024);
}

TEST(ResumeState, EveryTruncationIsRefused) {
  ResumeState state = sample_state(3);
  carry(&state, 5);
  const std::string bytes = encode_resume_state(state);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_resume_state(std::string_view(bytes).substr(0, size)).ok());
  }
}

TEST(ResumeState, EveryFlippedBitIsRefused) {
  ResumeState state = sample_state(2);
  carry(&state, 2);
  const std::string bytes = encode_resume_state(state);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(decode_resume_state(damaged).ok()) << "bit " << bit;
  }
}

TEST(ResumeState, ANewerFormatIsRefusedByBothVersions) {
  std::string bytes = encode_resume_state(sample_state(1));
  bytes[4] = 9;
  const auto decoded = decode_resume_state(bytes);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.status().code(), Code::kVersionMismatch);
  EXPECT_NE(decoded.status().message().find("format 9"), std::string::npos);
}

TEST(StreamStateCodec, LyingCountsCauseNoAllocation) {
  const std::string lying("\x01\x00\x00\xff\xff\xff\xff\xff\xff\xff\x7f", 11);
  EXPECT_FALSE(decode_stream_state(lying).ok());
}

}  // namespace
}  // namespace overlord::protocol
