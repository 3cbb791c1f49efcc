#include "overlord/plan/mix/meta_buffer.h"

#include <gtest/gtest.h>

namespace overlord::plan {
namespace {

MetaWindowPtr window(uint32_t pass, uint64_t position, size_t rows, uint32_t generation = 1) {
  auto out = std::make_shared<model::MetaWindow>();
  out->first = {0, pass, position};
  out->tokens.assign(rows, 7);
  out->generation = generation;
  return out;
}

TEST(MetaBuffer, FindsWhatWasPostedInAnyOrder) {
  MetaBuffer buffer;
  buffer.post(window(1, 0, 5));
  buffer.post(window(0, 10, 5));
  buffer.post(window(0, 0, 10));
  EXPECT_EQ(buffer.rows(), 20u);
  EXPECT_EQ(buffer.windows(), 3u);
  EXPECT_EQ(buffer.find(0, 0)->first.position, 0u);
  EXPECT_EQ(buffer.find(0, 9)->first.position, 0u);
  EXPECT_EQ(buffer.find(0, 10)->first.position, 10u);
  EXPECT_EQ(buffer.find(1, 4)->first.pass, 1u);
}

TEST(MetaBuffer, AnswersNullForWhatIsMissing) {
  MetaBuffer buffer;
  EXPECT_EQ(buffer.find(0, 0), nullptr);
  buffer.post(window(1, 10, 5));
  buffer.post(window(1, 20, 5));
  EXPECT_EQ(buffer.find(0, 10), nullptr);
  EXPECT_EQ(buffer.find(1, 9), nullptr);
  EXPECT_EQ(buffer.find(1, 15), nullptr);
  EXPECT_EQ(buffer.find(1, 25), nullptr);
  EXPECT_EQ(buffer.find(2, 0), nullptr);
}

TEST(MetaBuffer, KeepsTheFirstOfTwo) {
  MetaBuffer buffer;
  buffer.post(window(0, 0, 5, 1));
  buffer.post(window(0, 0, 5, 2));
  EXPECT_EQ(buffer.rows(), 5u);
  EXPECT_EQ(buffer.find(0, 0)->generation, 1u);
}

TEST(MetaBuffer, AnEmptyWindowHidesNothing) {
  MetaBuffer buffer;
  buffer.post(window(0, 0, 0));
  EXPECT_EQ(buffer.windows(), 0u);
  buffer.post(window(0, 0, 5));
  EXPECT_NE(buffer.find(0, 0), nullptr);
}

TEST(MetaBuffer, TrimForgetsWhatEndsBeforeTheCursor) {
  MetaBuffer buffer;
  buffer.post(window(0, 0, 10));
  buffer.post(window(0, 10, 10));
  buffer.post(window(1, 0, 10));
  buffer.trim(0, 9);
  EXPECT_EQ(buffer.windows(), 3u);
  buffer.trim(0, 10);
  EXPECT_EQ(buffer.windows(), 2u);
  EXPECT_EQ(buffer.find(0, 5), nullptr);
  buffer.trim(1, 0);
  EXPECT_EQ(buffer.windows(), 1u);
  EXPECT_EQ(buffer.rows(), 10u);
  buffer.trim(1, 10);
  EXPECT_EQ(buffer.rows(), 0u);
}

}  // namespace
}  // namespace overlord::plan
