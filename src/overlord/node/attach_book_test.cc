#include "overlord/node/attach_book.h"

#include <gtest/gtest.h>

namespace overlord::node {
namespace {

const Digest kJob = digest_of("job");

protocol::Attach rank(Rank number, uint32_t attempt = 1, std::string state = "") {
  protocol::Attach out;
  out.attempt = attempt;
  out.job = kJob;
  out.state = std::move(state);
  out.ranks = {number};
  return out;
}

TEST(AttachBook, ServesWhenAllAreHere) {
  AttachBook book({0, 1, 2}, kJob);
  EXPECT_FALSE(book.attach(10, rank(0)).serve);
  EXPECT_FALSE(book.attach(11, rank(2)).serve);
  EXPECT_EQ(book.missing(), std::vector<Rank>{1});
  EXPECT_FALSE(book.serving());
  EXPECT_TRUE(book.attach(12, rank(1)).serve);
  EXPECT_TRUE(book.serving());
}

TEST(AttachBook, RefusesAnotherJob) {
  AttachBook book({0}, kJob);
  protocol::Attach other = rank(0);
  other.job = digest_of("another");
  EXPECT_EQ(book.attach(1, other).refused.code(), Code::kStateMismatch);
}

TEST(AttachBook, RefusesRanksItDoesNotServe) {
  AttachBook book({0, 1}, kJob);
  EXPECT_EQ(book.attach(1, rank(2)).refused.code(), Code::kInvalidArgument);
}

TEST(AttachBook, RefusesARankTwice) {
  AttachBook book({0, 1}, kJob);
  ASSERT_TRUE(book.attach(1, rank(0)).refused.ok());
  EXPECT_FALSE(book.attach(2, rank(0)).refused.ok());
  EXPECT_EQ(book.attached().size(), 1u);
}

TEST(AttachBook, NamesRanksThatDisagree) {
  AttachBook book({0, 1}, kJob);
  ASSERT_TRUE(book.attach(1, rank(0, 1, "state of step 3")).refused.ok());
  const AttachBook::Outcome outcome = book.attach(2, rank(1, 1, "state of step 4"));
  EXPECT_FALSE(outcome.serve);
  EXPECT_EQ(outcome.disagreement.code(), Code::kStateMismatch);
}

TEST(AttachBook, ALaterAttemptFencesTheEarlier) {
  AttachBook book({0, 1}, kJob);
  book.attach(1, rank(0));
  ASSERT_TRUE(book.attach(2, rank(1)).serve);
  const AttachBook::Outcome outcome = book.attach(3, rank(1, 2, "saved"));
  EXPECT_EQ(outcome.fenced, (std::vector<AttachBook::Connection>{1, 2}));
  EXPECT_FALSE(book.serving());
  EXPECT_EQ(book.attach(4, rank(0, 1)).refused.code(), Code::kCancelled) << "it is over";
  EXPECT_TRUE(book.attach(5, rank(0, 2, "saved")).serve);
  EXPECT_EQ(book.state(), "saved");
}

TEST(AttachBook, KnowsWhoIsGone) {
  AttachBook book({0, 1}, kJob);
  book.attach(1, rank(0));
  book.attach(2, rank(1));
  EXPECT_FALSE(book.leave(1));
  EXPECT_EQ(book.gone(), std::vector<Rank>{0});
  EXPECT_FALSE(book.attach(3, rank(0)).refused.ok()) << "it needs a new attempt";
  EXPECT_TRUE(book.leave(2)) << "nobody is left";
}

TEST(AttachBook, AnotherRunCountsItsAttemptsAnew) {
  AttachBook book({0}, kJob);
  book.attach(1, rank(0, 7));
  EXPECT_TRUE(book.leave(1));
  EXPECT_FALSE(book.attach(2, rank(0, 1)).refused.ok());
  book.begin_anew();
  EXPECT_TRUE(book.attach(3, rank(0, 1)).serve);
}

TEST(AttachBook, WhoLeavesBeforeServingMayComeAgain) {
  AttachBook book({0, 1}, kJob);
  book.attach(1, rank(0));
  EXPECT_TRUE(book.leave(1));
  EXPECT_TRUE(book.attach(2, rank(0)).refused.ok());
}

}  // namespace
}  // namespace overlord::node
