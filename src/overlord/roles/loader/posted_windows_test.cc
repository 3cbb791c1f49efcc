#include "overlord/roles/loader/posted_windows.h"

#include <gtest/gtest.h>

namespace overlord::loader {
namespace {

PostedWindow window_of(uint64_t rows) {
  auto window = std::make_shared<model::MetaWindow>();
  window->tokens.assign(rows, 7);
  return window;
}

TEST(PostedWindows, TheNewestStay) {
  PostedWindows posted(10);
  const PostedWindow first = window_of(4);
  posted.keep(3, first);
  posted.keep(5, window_of(4));
  posted.keep(3, window_of(4));
  EXPECT_EQ(posted.find(3), first);
  EXPECT_EQ(posted.find(4), nullptr) << "of another slot";
  posted.keep(7, window_of(4));
  EXPECT_EQ(posted.find(3), nullptr);
  EXPECT_NE(posted.find(5), nullptr);
  EXPECT_NE(posted.find(7), nullptr);
}

TEST(PostedWindows, OneThatIsLargerThanAllStays) {
  PostedWindows posted(10);
  posted.keep(1, window_of(4));
  posted.keep(2, window_of(50));
  EXPECT_EQ(posted.find(1), nullptr);
  EXPECT_NE(posted.find(2), nullptr);
}

}  // namespace
}  // namespace overlord::loader
