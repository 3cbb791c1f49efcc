#include "overlord/workers/transform_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <set>
#include <string>

namespace overlord::workers {
namespace {

using runtime::TextRows;
using runtime::TransformedRows;

TextRows text_rows_of(const std::vector<std::string>& texts) {
  TextRows rows;
  for (const std::string& text : texts) {
    rows.bytes += text;
    rows.ends.push_back(rows.bytes.size());
  }
  return rows;
}

// What a made-up function does, by the first letter of a row: 'd' drops, 't' gives tokens, 'b' is
// bad, 'x' kills whoever runs it, 'n' is not deterministic, the rest comes back with a '+'.
struct PoolWorld {
  std::atomic<int> calls{0};
  std::atomic<int> deaths{0};
  std::atomic<int> kills_from_outside{0};  // that still come
  std::atomic<int> failing_starts{0};
  std::mutex mutex;
  std::multiset<std::string> given;
};

class FakePoolRunner final : public TransformRunner {
 public:
  explicit FakePoolRunner(PoolWorld* world) : world_(world) {}

  Status ready() override {
    if (world_->failing_starts.fetch_sub(1) > 0) return {Code::kUnavailable, "did not start"};
    return {};
  }

  Result<TransformAnswer> run(const TextRows& rows) override {
    ++world_->calls;
    if (world_->kills_from_outside.fetch_sub(1) > 0) return died("signal 9");
    TransformAnswer answer;
    for (size_t i = 0; i < rows.rows(); ++i) {
      const std::string text(rows.row(i));
      {
        const std::lock_guard lock(world_->mutex);
        world_->given.insert(text);
      }
      if (text[0] == 'x') return died("exit status 3");
      add(text, &answer);
    }
    EXPECT_TRUE(check_transform_answer(answer).ok());
    return answer;
  }

 private:
  Status died(const std::string& how) {
    ++world_->deaths;
    return {Code::kUnavailable, "its worker closed its output; its end: " + how};
  }

  void add(const std::string& text, TransformAnswer* answer) {
    std::string out;
    auto kind = TransformedAs::kText;
    switch (text[0]) {
      case 'd':
        kind = TransformedAs::kDropped;
        break;
      case 't':
        kind = TransformedAs::kTokens;
        answer->tokens.insert(answer->tokens.end(), {1, 2, 3});
        break;
      case 'b':
        kind = TransformedAs::kBad;
        out = "raised ValueError: " + text;
        break;
      case 'n':
        out = text + std::to_string(world_->calls.load());
        break;
      default:
        out = text + "+";
    }
    answer->kinds.push_back(static_cast<uint8_t>(kind));
    answer->sizes.push_back(kind == TransformedAs::kTokens ? 3 : static_cast<uint32_t>(out.size()));
    answer->text += out;
  }

  PoolWorld* world_;
};

struct Pool {
  explicit Pool(TransformPoolOptions options = {}) {
    options.function = "mod:fn";
    options.make_runner = [this] { return std::make_unique<FakePoolRunner>(&world); };
    pool = TransformPool::make(std::move(options)).value();
  }

  Result<TransformedRows> apply(const std::vector<std::string>& texts) {
    std::promise<Result<TransformedRows>> promise;
    pool->apply(text_rows_of(texts), {},
                [&](Result<TransformedRows> got) { promise.set_value(std::move(got)); });
    return promise.get_future().get();
  }

  PoolWorld world;
  std::unique_ptr<TransformPool> pool;
};

std::vector<std::string> many_rows(size_t count) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.push_back("row " + std::to_string(i));
  return texts;
}

TEST(TransformPool, RowsComeBackInOrderWhoeverRunsThem) {
  for (const size_t workers : {1u, 3u}) {
    for (const size_t batch : {1u, 7u, 1000u}) {
      TransformPoolOptions options;
      options.workers = workers;
      options.batch_rows = batch;
      Pool pool(options);
      const std::vector<std::string> texts = many_rows(100);
      const Result<TransformedRows> got = pool.apply(texts);
      ASSERT_TRUE(got.ok()) << got.status().message();
      ASSERT_EQ(got->text.rows(), texts.size());
      EXPECT_TRUE(got->bad.empty());
      for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(got->text.row(i), texts[i] + "+");
    }
  }
}

TEST(TransformPool, EveryKindOfRowHasItsPlace) {
  Pool pool;
  const Result<TransformedRows> got = pool.apply({"a", "", "drop", "tok", "bad", "z"});
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->text.row(0), "a+");
  EXPECT_EQ(got->text.row(1), "");  // nothing to transform, and not bad by our doing
  EXPECT_EQ(got->text.row(5), "z+");
  EXPECT_EQ(got->tokens.ends, (std::vector<uint64_t>{0, 0, 0, 3, 3, 3}));
  EXPECT_EQ(got->token_rows, 1u);
  ASSERT_EQ(got->bad.size(), 2u);
  EXPECT_EQ(got->bad[0].index, 2u);
  EXPECT_EQ(got->bad[0].reason, "dropped by transform mod:fn");
  EXPECT_EQ(got->bad[1].index, 4u);
  EXPECT_EQ(got->bad[1].reason, "raised ValueError: bad");
  EXPECT_FALSE(pool.world.given.contains(""));
}

TEST(TransformPool, NothingIsAnAnswerToo) {
  Pool pool;
  EXPECT_EQ(pool.apply({})->text.rows(), 0u);
  EXPECT_EQ(pool.apply({"", ""})->text.rows(), 2u);
}

TEST(TransformPool, TheOneRowThatKillsIsFoundAndNeverGivenAgain) {
  TransformPoolOptions options;
  options.batch_rows = 64;
  Pool pool(options);
  std::vector<std::string> texts = many_rows(64);
  texts[41] = "x marks the spot";
  const Result<TransformedRows> got = pool.apply(texts);
  ASSERT_TRUE(got.ok()) << got.status().message();
  ASSERT_EQ(got->bad.size(), 1u);
  EXPECT_EQ(got->bad[0].index, 41u);
  EXPECT_NE(got->bad[0].reason.find("mod:fn"), std::string::npos);
  EXPECT_NE(got->bad[0].reason.find("exit status 3"), std::string::npos);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i == 41) continue;
    EXPECT_EQ(got->text.row(i), texts[i] + "+");
  }
  EXPECT_EQ(pool.world.deaths, 2 + 5 + 2);  // twice whole, five halves, twice alone
  const Result<TransformedRows> again = pool.apply(texts);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->bad[0].reason, got->bad[0].reason);
  EXPECT_EQ(pool.world.deaths, 9);
}

TEST(TransformPool, AKillFromOutsideCostsARetryAndNoRow) {
  Pool pool;
  pool.world.kills_from_outside = 1;
  const Result<TransformedRows> got = pool.apply(many_rows(10));
  ASSERT_TRUE(got.ok());
  EXPECT_TRUE(got->bad.empty());
  EXPECT_EQ(pool.pool->stats().retried, 1u);
}

TEST(TransformPool, WhereSeveralPlanNoRowIsCondemned) {
  TransformPoolOptions options;
  options.may_decide = false;
  Pool pool(options);
  const Status status = pool.apply({"a", "x", "b"}).status();
  EXPECT_EQ(status.code(), Code::kUserFunction);
  EXPECT_NE(status.message().find("one planner"), std::string::npos);
}

TEST(TransformPool, AFunctionThatKillsEverythingIsGivenUp) {
  TransformPoolOptions options;
  options.give_up_after = 3;
  Pool pool(options);
  const std::vector<std::string> texts = {"x1", "x2", "x3", "x4", "x5", "x6"};
  const Status status = pool.apply(texts).status();
  EXPECT_EQ(status.code(), Code::kUserFunction);
  EXPECT_NE(status.message().find("not the data"), std::string::npos);
}

TEST(TransformPool, AWorkerThatDoesNotStartEndsTheStream) {
  Pool pool;
  pool.world.failing_starts = 100;
  EXPECT_EQ(pool.apply({"a"}).status().code(), Code::kUserFunction);
}

TEST(TransformPool, ASecondCallMustGiveTheSame) {
  TransformPoolOptions options;
  options.check_every = 1;
  Pool pool(options);
  const Result<TransformedRows> same = pool.apply({"a", "c", "tok", "drop", "bad"});
  ASSERT_TRUE(same.ok()) << same.status().message();
  EXPECT_EQ(same->text.row(1), "c+");
  EXPECT_EQ(pool.world.calls, 2);
  const Status status = pool.apply({"a", "n"}).status();
  EXPECT_EQ(status.code(), Code::kUserFunction);
  EXPECT_NE(status.message().find("mod:fn is not deterministic"), std::string::npos)
      << status.message();
}

TEST(TransformPool, ARowThatBecomesTooLargeIsBad) {
  TransformPoolOptions options;
  options.max_row_bytes = 4;
  Pool pool(options);
  const Result<TransformedRows> got = pool.apply({"abc", "abcd"});
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(got->bad.size(), 1u);
  EXPECT_EQ(got->bad[0].index, 1u);
}

TEST(TransformPool, EveryCallIsAnsweredWhenThePoolEnds) {
  std::atomic<int> answers{0};
  {
    Pool pool;
    for (int i = 0; i < 50; ++i) {
      pool.pool->apply(text_rows_of(many_rows(3)), {},
                       [&](const Result<TransformedRows>&) { ++answers; });
    }
  }
  EXPECT_EQ(answers, 50);
}

TEST(TransformFrames, LyingAnswersAreRefused) {
  TransformAnswer answer;
  answer.kinds = {0, 1};
  answer.sizes = {2, 1};
  answer.text = "ab";
  answer.tokens = {7};
  EXPECT_TRUE(check_transform_answer(answer).ok());
  answer.sizes[0] = 3;
  EXPECT_FALSE(check_transform_answer(answer).ok());
  answer.sizes[0] = 2;
  answer.kinds[1] = 9;
  EXPECT_FALSE(check_transform_answer(answer).ok());
  answer.kinds = {0, 2};
  EXPECT_FALSE(check_transform_answer(answer).ok());
  EXPECT_FALSE(parse_transform_answer("short", 1).ok());
  const std::string huge(16, '\xff');
  EXPECT_FALSE(parse_transform_sizes(huge, 1 << 20).ok());
}

}  // namespace
}  // namespace overlord::workers
