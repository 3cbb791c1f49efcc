#include "overlord/workers/batch_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>

#include "overlord/base/bytes.h"
#include "overlord/base/rng.h"
#include "overlord/workers/batch_frames.h"

namespace overlord::workers {
namespace {

using model::Element;
using runtime::BatchAnswer;
using runtime::BatchArray;
using runtime::BatchQuestion;

// A microbatch of 2 x 4 tokens; the last of each row carries no loss.
struct Made {
  std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> weights = {1, 1, 1, 0, 1, 1, 1, 0};
  std::vector<float> pixels = {0.5f, 0.25f};
  std::vector<int32_t> bounds = {0, 4, 8};
};

BatchQuestion question_of(const std::shared_ptr<Made>& made, uint64_t key = 1) {
  BatchQuestion question;
  question.step = 12;
  question.microbatch = 3;
  question.group = 1;
  question.key = key;
  const auto add = [&](const char* name, Element element, std::vector<uint64_t> shape,
                       const auto& values) {
    question.arrays.push_back(
        {name, element, std::move(shape), {values.data(), values.size() * sizeof(values[0])}});
  };
  add("tokens", Element::kI32, {2, 4}, made->tokens);
  add("targets", Element::kI32, {2, 4}, made->tokens);
  add("loss_weights", Element::kF32, {2, 4}, made->weights);
  add("positions", Element::kI32, {2, 4}, made->tokens);
  add("cu_seqlens", Element::kI32, {3}, made->bounds);
  add("media/a/b/data", Element::kF32, {1, 2}, made->pixels);
  question.holder = made;
  return question;
}

// An answer as a worker writes it.
std::string answer_frame(const std::vector<BatchArray>& arrays) {
  ByteWriter head;
  head.u32(static_cast<uint32_t>(arrays.size()));
  for (const BatchArray& array : arrays) {
    head.u32(static_cast<uint32_t>(array.name.size()));
    head.raw(array.name.data(), array.name.size());
    head.u8(static_cast<uint8_t>(array.element));
    head.u8(static_cast<uint8_t>(array.shape.size()));
    for (const uint64_t side : array.shape) head.u64(side);
  }
  std::string frame = head.take();
  for (const BatchArray& array : arrays) {
    if (array.view.size_bytes == 0) continue;
    frame.resize((frame.size() + 63) / 64 * 64, '\0');
    frame.append(static_cast<const char*>(array.view.data), array.view.size_bytes);
  }
  return frame;
}

TransformAnswer as_row(TransformedAs kind, std::string text) {
  TransformAnswer answer;
  answer.kinds = {static_cast<uint8_t>(kind)};
  answer.sizes = {static_cast<uint32_t>(text.size())};
  answer.text = std::move(text);
  return answer;
}

// What the next calls do, one after the other; then the last for ever.
struct World {
  std::function<Result<TransformAnswer>(int call)> play;
  std::atomic<int> calls{0};
  std::atomic<int> seats{0};
};

class FakeRunner final : public TransformRunner {
 public:
  explicit FakeRunner(World* world) : world_(world) { ++world_->seats; }
  Status ready() override { return {}; }
  Result<TransformAnswer> run(const runtime::TextRows& rows) override {
    EXPECT_EQ(rows.rows(), 1u);
    return world_->play(++world_->calls);
  }

 private:
  World* world_;
};

Result<BatchAnswer> ask(World* world, uint32_t check_every = 0, uint64_t key = 1) {
  BatchPoolOptions options;
  options.function = "m:f";
  options.check_every = check_every;
  options.vocabulary = 100;
  options.make_runner = [world] { return std::make_unique<FakeRunner>(world); };
  auto pool = BatchPool::make(std::move(options)).value();
  std::promise<Result<BatchAnswer>> told;
  pool->apply(question_of(std::make_shared<Made>(), key),
              [&](Result<BatchAnswer> answer) { told.set_value(std::move(answer)); });
  return told.get_future().get();
}

std::string tokens_frame(std::vector<int32_t> tokens) {
  return answer_frame({{"tokens", Element::kI32, {2, 4}, {tokens.data(), 32}}});
}

TEST(BatchPool, ReplacedArraysComeBack) {
  World world;
  world.play = [](int) {
    return as_row(TransformedAs::kText, tokens_frame({9, 9, 9, 9, 8, 8, 8, 8}));
  };
  const auto answer = ask(&world);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  ASSERT_EQ(answer->arrays.size(), 1u);
  EXPECT_EQ(static_cast<const int32_t*>(answer->arrays[0].view.data)[7], 8);
  EXPECT_EQ(world.calls, 1);
}

TEST(BatchPool, WhatFailsIsTriedOnceMoreInAFreshSeat) {
  const std::vector<std::function<Result<TransformAnswer>()>> failures = {
      [] { return Status(Code::kUnavailable, "its worker died"); },
      [] { return as_row(TransformedAs::kBad, "transform m:f raised ValueError: no"); },
      [] { return as_row(TransformedAs::kText, "garbage"); },
      [] { return as_row(TransformedAs::kDropped, ""); },
      [] { return as_row(TransformedAs::kText, tokens_frame({1, 2, 3, 4, 5, 6, 7, 100})); },
  };
  for (const auto& fail : failures) {
    World once;
    once.play = [&](int call) {
      return call == 1 ? fail()
                       : as_row(TransformedAs::kText, tokens_frame({0, 0, 0, 0, 0, 0, 0, 0}));
    };
    EXPECT_TRUE(ask(&once).ok());
    EXPECT_EQ(once.calls, 2);
    EXPECT_EQ(once.seats, 2);
    World always;
    always.play = [&](int) { return fail(); };
    const auto answer = ask(&always);
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.status().code(), Code::kUserFunction);
    EXPECT_EQ(always.calls, 2);
    const std::string message = answer.status().message();
    EXPECT_NE(message.find("batch_transform m:f, step 12, microbatch 3 of group 1: "),
              std::string::npos)
        << message;
  }
}

TEST(BatchPool, WhatIsFinalIsNotTriedAgain) {
  World world;
  world.play = [](int) { return Status(Code::kUserFunction, "hangs on its thread"); };
  EXPECT_EQ(ask(&world).status().code(), Code::kUserFunction);
  EXPECT_EQ(world.calls, 1);
}

TEST(BatchPool, ASampledCallIsMadeTwiceAndBothMustAgree) {
  World same;
  same.play = [](int) {
    return as_row(TransformedAs::kText, tokens_frame({1, 1, 1, 1, 1, 1, 1, 1}));
  };
  EXPECT_TRUE(ask(&same, 100, 7).ok());
  EXPECT_EQ(same.calls, 2) << "the first call of a pool is always checked";
  World other;
  other.play = [](int call) {
    return as_row(TransformedAs::kText, tokens_frame({call, 1, 1, 1, 1, 1, 1, 1}));
  };
  const auto answer = ask(&other, 100, 7);
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.status().message().find("not deterministic"), std::string::npos);
}

TEST(BatchPool, WhoWaitsIsToldWhenItEnds) {
  World world;
  std::promise<void> entered, go;
  std::shared_future<void> gone = go.get_future().share();
  world.play = [&](int) {
    entered.set_value();
    gone.wait();
    return Result<TransformAnswer>(Status(Code::kCancelled, "stopped"));
  };
  BatchPoolOptions options;
  options.make_runner = [&] { return std::make_unique<FakeRunner>(&world); };
  options.stop = [&] { go.set_value(); };
  auto pool = BatchPool::make(std::move(options)).value();
  std::vector<Status> told;
  std::mutex mutex;
  for (int i = 0; i < 2; ++i) {
    pool->apply(question_of(std::make_shared<Made>()), [&](const Result<BatchAnswer>& answer) {
      const std::lock_guard lock(mutex);
      told.push_back(answer.status());
    });
  }
  entered.get_future().wait();
  pool.reset();
  ASSERT_EQ(told.size(), 2u);
  for (const Status& status : told) EXPECT_EQ(status.code(), Code::kCancelled);
}

TEST(BatchAnswer, OnlyWhatMayBeReplacedAndOnlyByWhatFits) {
  const auto made = std::make_shared<Made>();
  const BatchQuestion question = question_of(made);
  const auto refused = [&](std::vector<BatchArray> arrays) {
    return !check_answer(question, {std::move(arrays), nullptr}, 100).ok();
  };
  const Made own;
  const BatchArray pixels{"media/a/b/data", Element::kF32, {1, 2}, {own.pixels.data(), 8}};
  EXPECT_FALSE(refused({}));
  EXPECT_FALSE(refused({pixels}));
  EXPECT_TRUE(refused({pixels, pixels}));
  EXPECT_TRUE(refused({{"positions", Element::kI32, {2, 4}, {own.tokens.data(), 32}}}));
  EXPECT_TRUE(refused({{"cu_seqlens", Element::kI32, {3}, {own.bounds.data(), 12}}}));
  EXPECT_TRUE(refused({{"media/c/data", Element::kF32, {1, 2}, {own.pixels.data(), 8}}}));
  EXPECT_TRUE(refused({{"tokens", Element::kI32, {4, 2}, {own.tokens.data(), 32}}}));
  EXPECT_TRUE(refused({{"tokens", Element::kF32, {2, 4}, {own.weights.data(), 32}}}));
  const auto weights = [&](std::vector<float> values) {
    return refused({{"loss_weights", Element::kF32, {2, 4}, {values.data(), 32}}});
  };
  EXPECT_FALSE(weights({0, 0.5f, 1, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(weights({0, 0, 0, 0.1f, 0, 0, 0, 0})) << "where there was none";
  EXPECT_TRUE(weights({1.5f, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(weights({-1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_TRUE(weights({std::numeric_limits<float>::quiet_NaN(), 0, 0, 0, 0, 0, 0, 0}));
  const auto ids = [&](const char* name, std::vector<int32_t> values) {
    return refused({{name, Element::kI32, {2, 4}, {values.data(), 32}}});
  };
  EXPECT_TRUE(ids("tokens", {1, 2, 3, -1, 5, 6, 7, 8}));
  EXPECT_FALSE(ids("targets", {1, 2, 3, -100, 5, 6, 7, 8})) << "it carries no loss";
  EXPECT_TRUE(ids("targets", {-100, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_TRUE(ids("targets", {100, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(BatchFrames, NoDamageIsBelieved) {
  const auto made = std::make_shared<Made>();
  const std::string whole = answer_frame(question_of(made).arrays);
  const auto arrays = parse_batch_answer(whole);
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  ASSERT_EQ(arrays->size(), 6u);
  EXPECT_EQ(std::memcmp((*arrays)[2].view.data, made->weights.data(), 32), 0);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(parse_batch_answer(std::string_view(whole).substr(0, size)).ok());
  }
  for (uint64_t i = 0; i < 20'000; ++i) {
    std::string damaged = whole;
    for (uint64_t j = 0; j < 3; ++j) {
      damaged[uniform_below(5, i, j, 200)] = static_cast<char>(random_u64(6, i, j));
    }
    const auto parsed = parse_batch_answer(damaged);  // no crash, nothing outside
    if (!parsed.ok()) continue;
    for (const BatchArray& array : *parsed) EXPECT_LE(array.view.size_bytes, damaged.size());
  }
}

}  // namespace
}  // namespace overlord::workers
