#include "overlord/roles/keeper/failure_book.h"

#include <gtest/gtest.h>

namespace overlord::keeper {
namespace {

TEST(FailureBook, TellsEachRankOfTheAttemptOnce) {
  FailureBook book(not_found("no shard"), 3, {0, 1, 2});
  book.told({0});
  EXPECT_FALSE(book.all_told());
  EXPECT_EQ(book.tell({2}, 3)->message(), "no shard");
  EXPECT_EQ(book.tell({1}, 2)->message(), "no shard") << "a late one of an earlier attempt";
  EXPECT_TRUE(book.all_told());
}

TEST(FailureBook, SaysNothingToAnotherTry) {
  FailureBook book(not_found("no shard"), 3, {0, 1});
  EXPECT_FALSE(book.tell({1}, 4).has_value()) << "a later attempt";
  ASSERT_TRUE(book.tell({1}, 3).has_value());
  EXPECT_FALSE(book.tell({1}, 3).has_value()) << "it was told, and comes again";
  EXPECT_FALSE(book.tell({7}, 3).has_value()) << "a rank of another job";
  EXPECT_FALSE(book.all_told());
}

}  // namespace
}  // namespace overlord::keeper
