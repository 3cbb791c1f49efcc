// How rows of a transform become tokens, and who runs a transform.
#include "overlord/node/functions/transforming_encoder.h"

#include <gtest/gtest.h>

namespace overlord::node {
namespace {

// Gives what it was told to, at once.
class ToldTransform final : public runtime::RowTransform {
 public:
  explicit ToldTransform(Result<runtime::TransformedRows> answer) : answer_(std::move(answer)) {}
  void apply(runtime::TextRows, runtime::CancelToken, runtime::TransformDone done) override {
    done(answer_);
  }

 private:
  Result<runtime::TransformedRows> answer_;
};

// A token of 1000 plus its value for every byte; an own cost, and a failure if wanted.
class LoudTokenizer final : public runtime::TextEncoder, public runtime::EncoderCosts {
 public:
  void encode(runtime::TextRows rows, runtime::CancelToken, runtime::EncodeDone done) override {
    ++asked;
    if (!failure.ok()) return done(failure);
    runtime::EncodedRows out;
    for (const char letter : rows.bytes) out.tokens.push_back(1000 + letter);
    out.ends = rows.ends;
    out.elapsed_ns = 7;
    done(std::move(out));
  }
  uint64_t worker_bytes() const override { return 50; }

  int asked = 0;
  Status failure;
};

model::Source transformed_source() {
  model::Source source;
  source.name = "s";
  source.transform.function = "own:f";
  source.transform.version = "1";
  return source;
}

// Row 0 is text, row 1 tokens, row 2 bad.
runtime::TransformedRows mixed_rows() {
  runtime::TransformedRows rows;
  rows.text = {"ab", {2, 2, 2}};
  rows.tokens = {{5, 6, 7}, {0, 3, 3}};
  rows.bad = {{2, "no good"}};
  rows.token_rows = 1;
  rows.elapsed_ns = 100;
  return rows;
}

Result<runtime::EncodedRows> encoded(TransformingEncoder& encoder) {
  std::optional<Result<runtime::EncodedRows>> got;
  encoder.encode({}, {}, [&](Result<runtime::EncodedRows> rows) { got = std::move(rows); });
  return *got;
}

TEST(TransformingEncoder, TextIsTokenisedAndTokensAreTakenAsTheyAre) {
  LoudTokenizer tokenizer;
  TransformingEncoder encoder(std::make_unique<ToldTransform>(mixed_rows()), transformed_source(),
                              &tokenizer);
  const auto rows = encoded(encoder);
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->tokens, (std::vector<int32_t>{1097, 1098, 5, 6, 7}));
  EXPECT_EQ(rows->ends, (std::vector<uint64_t>{2, 5, 5}));
  ASSERT_EQ(rows->bad.size(), 1u);
  EXPECT_EQ(rows->bad[0].index, 2u);
  EXPECT_EQ(rows->elapsed_ns, 107);
  EXPECT_EQ(encoder.python_ns(), 100u) << "without the tokenizer's";
  EXPECT_EQ(encoder.worker_bytes(), 50u);
}

TEST(TransformingEncoder, TextAloneIsTheTokenizersAnswerWithTheBadRows) {
  runtime::TransformedRows rows = mixed_rows();
  rows.tokens = {{}, {0, 0, 0}};
  rows.token_rows = 0;
  LoudTokenizer tokenizer;
  TransformingEncoder encoder(std::make_unique<ToldTransform>(rows), transformed_source(),
                              &tokenizer);
  const auto got = encoded(encoder);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->tokens, (std::vector<int32_t>{1097, 1098}));
  EXPECT_EQ(got->bad.size(), 1u);
  EXPECT_EQ(got->elapsed_ns, 107);
}

TEST(TransformingEncoder, WithoutTextNobodyIsAskedAndWithoutATokenizerTextIsBad) {
  runtime::TransformedRows tokens = mixed_rows();
  tokens.text = {"", {0, 0, 0}};
  LoudTokenizer tokenizer;
  TransformingEncoder alone(std::make_unique<ToldTransform>(tokens), transformed_source(),
                            &tokenizer);
  EXPECT_EQ(encoded(alone)->tokens, (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(tokenizer.asked, 0);
  TransformingEncoder without(std::make_unique<ToldTransform>(mixed_rows()), transformed_source(),
                              nullptr);
  const auto rows = encoded(without);
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->tokens, (std::vector<int32_t>{5, 6, 7}));
  ASSERT_EQ(rows->bad.size(), 2u) << "in the order of the rows";
  EXPECT_EQ(rows->bad[0].index, 0u);
  EXPECT_EQ(rows->bad[0].reason, "transform own:f gave text, and the source has no tokenizer");
  EXPECT_EQ(rows->bad[1].reason, "no good");
}

TEST(TransformingEncoder, AFailureOfEitherIsPassedOn) {
  LoudTokenizer tokenizer;
  TransformingEncoder failing(
      std::make_unique<ToldTransform>(Status(Code::kUserFunction, "it threw")),
      transformed_source(), &tokenizer);
  EXPECT_EQ(encoded(failing).status().code(), Code::kUserFunction);
  tokenizer.failure = Status(Code::kUnavailable, "gone");
  TransformingEncoder other(std::make_unique<ToldTransform>(mixed_rows()), transformed_source(),
                            &tokenizer);
  EXPECT_EQ(encoded(other).status().code(), Code::kUnavailable);
}

TEST(TransformSeats, AFunctionWithoutAModuleRunsOnlyWhereItWasPassed) {
  model::Source source = transformed_source();
  source.transform.lane = model::Lane::kThread;
  const Status refused = make_transform(source, {}).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("source s: transform own:f of lane thread is no function of a"),
            std::string::npos)
      << refused.message();
  const TransformHosting here{std::make_shared<TransformDesk>(), true};
  const auto seats = transform_seats(source.transform, "source s", "key", here, true);
  ASSERT_TRUE(seats.ok()) << seats.status().message();
  EXPECT_FALSE(static_cast<bool>(seats->worker_bytes)) << "it has no processes";
  seats->stop();
  EXPECT_TRUE(here.desk->closed());
  source.transform.lane = model::Lane::kProcess;
  EXPECT_FALSE(transform_seats(source.transform, "source s", "key", here).ok())
      << "of lane process: a desk is no help";
}

TEST(TransformSeats, ThePoolIsAsTheSourceSaysAndDecidesWhereOnePlans) {
  model::Source source = transformed_source();
  source.transform.workers = 5;
  source.transform.batch_rows = 6;
  source.transform.check_every = 7;
  source.limits.max_document_bytes = 8;
  const auto least = pool_options(source, source.transform, {nullptr, true}, {});
  EXPECT_EQ(least.function, "own:f");
  EXPECT_EQ(least.workers, 5u);
  EXPECT_EQ(least.batch_rows, 6u);
  EXPECT_EQ(least.check_every, 7u);
  EXPECT_EQ(least.max_row_bytes, 8u);
  EXPECT_TRUE(least.may_decide);
  source.bad_rows_allowed = 9;
  const auto more = pool_options(source, source.transform, {nullptr, false}, {});
  EXPECT_EQ(more.give_up_after, least.give_up_after + 9) << "rows that the source allows";
  EXPECT_FALSE(more.may_decide);
}

}  // namespace
}  // namespace overlord::node
