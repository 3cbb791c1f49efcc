#include "overlord/runtime/trace.h"

#include <gtest/gtest.h>

namespace overlord::runtime {
namespace {

TEST(TraceBook, RemembersWhileOnAlone) {
  TraceBook book;
  book.note("plan", "", 1, 2, 0);
  EXPECT_FALSE(book.on());
  book.start();
  EXPECT_TRUE(book.on());
  book.note("plan", "", 3, 7, 5);
  book.note("read", "web", 4, 9);
  const std::vector<TraceEvent> kept = book.stop();
  book.note("plan", "", 8, 9, 6);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].what, "plan");
  EXPECT_EQ(kept[0].duration_ns, 4);
  EXPECT_EQ(kept[0].step, 5);
  EXPECT_EQ(kept[1].whose, "web");
  EXPECT_EQ(kept[1].step, TraceEvent::kNoStep);
  EXPECT_NE(kept[0].thread, 0u);
  EXPECT_TRUE(book.stop().empty());
}

TEST(TraceBook, KeepsTheNewestAndStartsAnew) {
  TraceBook book(3);
  book.start();
  for (int64_t i = 0; i < 10; ++i) book.note("plan", "", i, i + 1, i);
  const std::vector<TraceEvent> kept = book.stop();
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept.front().step, 7);
  EXPECT_EQ(kept.back().step, 9);
  book.start();
  book.note("plan", "", 1, 2, 1);
  book.start();
  EXPECT_TRUE(book.stop().empty());
}

}  // namespace
}  // namespace overlord::runtime
