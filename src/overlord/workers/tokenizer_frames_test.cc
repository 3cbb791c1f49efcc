#include "overlord/workers/tokenizer_frames.h"

#include <gtest/gtest.h>

#include <string>

#include "overlord/base/bytes.h"

namespace overlord::workers {
namespace {

using runtime::EncodedRows;
using runtime::TextRows;

TEST(TokenizerFrames, RequestHeadIsLittleEndian) {
  const TextRows rows{"abc", {1, 3}};
  EXPECT_EQ(tokenizer_request_head(rows), std::string("OVTK\x02\0\0\0\x03\0\0\0\0\0\0\0", 16));
}

TEST(TokenizerFrames, HeadsAreKnownByTheirMarks) {
  auto head = parse_tokenizer_head(std::string("OVTR\x05\0\0\x01", 8));
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->kind, TokenizerFrame::kRows);
  EXPECT_EQ(head->count, 0x01000005u);
  EXPECT_EQ(parse_tokenizer_head(std::string("OVTE\x05\0\0\0", 8))->kind, TokenizerFrame::kError);
  EXPECT_EQ(parse_tokenizer_head(std::string("OVTH\x05\0\0\0", 8))->kind,
            TokenizerFrame::kGreeting);
  EXPECT_EQ(parse_tokenizer_head(std::string("OVTE\0\0\0\x01", 8)).status().code(), Code::kBadData);
  EXPECT_EQ(parse_tokenizer_head(std::string("OVTK\x05\0\0\0", 8)).status().code(), Code::kBadData);
  EXPECT_EQ(parse_tokenizer_head("OVT").status().code(), Code::kBadData);
  EXPECT_EQ(parse_tokenizer_head("").status().code(), Code::kBadData);
}

TEST(TokenizerFrames, GreetingsAreThreeLines) {
  auto greeting = parse_tokenizer_greeting("1.2\na \"b\"/c\n32000");
  ASSERT_TRUE(greeting.ok()) << greeting.status().message();
  EXPECT_EQ(*greeting, (TokenizerGreeting{"1.2", "a \"b\"/c", 32000}));
  EXPECT_EQ(*parse_tokenizer_greeting("\n\n0"), TokenizerGreeting());
  for (const char* broken :
       {"", "1", "1\n", "1\nd", "1\nd\n", "1\nd\n-1", "1\nd\nmany", "1\nd\n5\n", "1\nd\nx\n5",
        "1\nd\n99999999999999999999", "1\nd\n1 2"}) {
    EXPECT_EQ(parse_tokenizer_greeting(broken).status().code(), Code::kBadData) << broken;
  }
}

TEST(TokenizerFrames, AnswersAreCheckedAgainstTheirRequests) {
  const TextRows rows{"abc", {1, 3}};
  EXPECT_TRUE(check_answer_sizes(rows, 2, 16 * 3 + 64 * 2).ok());
  EXPECT_FALSE(check_answer_sizes(rows, 2, 16 * 3 + 64 * 2 + 1).ok());
  EXPECT_FALSE(check_answer_sizes(rows, 2, ~uint64_t{0}).ok());
  EXPECT_FALSE(check_answer_sizes(rows, 1, 3).ok());
}

TEST(TokenizerFrames, ATemplateMayAddTokensToEveryRow) {
  const TextRows rows{"abc", {1, 3}};
  EXPECT_TRUE(check_answer_sizes(rows, 2, 16 * 3 + (64 + 100) * 2, 100).ok());
  EXPECT_FALSE(check_answer_sizes(rows, 2, 16 * 3 + (64 + 100) * 2 + 1, 100).ok());
}

TEST(TokenizerFrames, BadRowsRiseAndAreOfTheRequest) {
  const auto entry = [](uint32_t row, const std::string& reason) {
    ByteWriter writer;
    writer.u32(row);
    writer.u32(static_cast<uint32_t>(reason.size()));
    writer.raw(reason.data(), reason.size());
    return writer.take();
  };
  auto bad = parse_bad_rows(entry(0, "") + entry(2, "why"), 3);
  ASSERT_TRUE(bad.ok()) << bad.status().message();
  ASSERT_EQ(bad->size(), 2u);
  EXPECT_EQ(bad->at(1).index, 2u);
  EXPECT_EQ(bad->at(1).reason, "why");
  EXPECT_TRUE(parse_bad_rows("", 0).ok());
  for (const std::string& broken :
       {entry(3, "x"), entry(1, "x") + entry(1, "y"), entry(0, "long").substr(0, 10),
        entry(0, "x") + "\1", entry(0, std::string(kBadRowReasonBytes + 1, 'x'))}) {
    EXPECT_FALSE(parse_bad_rows(broken, 3).ok());
  }
}

TEST(TokenizerFrames, AnswersAreCheckedInside) {
  EXPECT_TRUE(check_answer_values({{1, 2, 3}, {0, 3}}, 4).ok());
  EXPECT_TRUE(check_answer_values({{}, {}}, 4).ok());
  EXPECT_TRUE(check_answer_values({{2147483647}, {1}}, 0).ok());
  EXPECT_FALSE(check_answer_values({{1, 2, 4}, {0, 3}}, 4).ok());
  EXPECT_FALSE(check_answer_values({{-1}, {1}}, 0).ok());
  EXPECT_FALSE(check_answer_values({{1, 2, 3}, {3, 2}}, 4).ok());
  EXPECT_FALSE(check_answer_values({{1, 2, 3}, {4, 3}}, 4).ok());
  EXPECT_FALSE(check_answer_values({{1, 2, 3}, {1, 2}}, 4).ok());
}

}  // namespace
}  // namespace overlord::workers
