#include "overlord/roles/keeper/attach_book.h"

#include <gtest/gtest.h>

namespace overlord::keeper {
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

// Why it was refused, if it was.
Status attach(AttachBook* book, const std::string& peer, const protocol::Attach& attach) {
  const Status refusal = book->refusal(attach);
  if (refusal.ok()) book->attach(peer, attach);
  return refusal;
}

TEST(AttachBook, ServesWhenAllAreHere) {
  AttachBook book({0, 1, 2}, kJob);
  ASSERT_TRUE(attach(&book, "a", rank(0)).ok());
  ASSERT_TRUE(attach(&book, "b", rank(2)).ok());
  EXPECT_EQ(book.missing(), std::vector<Rank>{1});
  EXPECT_FALSE(book.serving());
  ASSERT_TRUE(attach(&book, "c", rank(1)).ok());
  EXPECT_TRUE(book.serving());
}

TEST(AttachBook, RefusesAnotherJob) {
  AttachBook book({0}, kJob);
  protocol::Attach other = rank(0);
  other.job = digest_of("another");
  EXPECT_EQ(book.refusal(other).code(), Code::kStateMismatch);
}

TEST(AttachBook, RefusesRanksItDoesNotServe) {
  EXPECT_EQ(AttachBook({0, 1}, kJob).refusal(rank(2)).code(), Code::kInvalidArgument);
}

TEST(AttachBook, RefusesARankTwice) {
  AttachBook book({0, 1}, kJob);
  ASSERT_TRUE(attach(&book, "a", rank(0)).ok());
  EXPECT_FALSE(attach(&book, "b", rank(0)).ok());
  EXPECT_EQ(book.attached().size(), 1u);
}

TEST(AttachBook, NamesRanksThatDisagree) {
  AttachBook book({0, 1}, kJob);
  ASSERT_TRUE(attach(&book, "a", rank(0, 1, "state of step 3")).ok());
  EXPECT_TRUE(book.disagreement().ok()) << "not everybody is here";
  ASSERT_TRUE(attach(&book, "b", rank(1, 1, "state of step 4")).ok());
  EXPECT_FALSE(book.serving());
  EXPECT_EQ(book.disagreement().code(), Code::kStateMismatch);
}

TEST(AttachBook, KnowsWhoOpensTheStreamAgain) {
  AttachBook book({0, 1}, kJob);
  EXPECT_FALSE(book.opens_again(rank(0))) << "nobody has begun";
  ASSERT_TRUE(attach(&book, "a", rank(0)).ok());
  EXPECT_FALSE(book.opens_again(rank(1)));
  EXPECT_TRUE(book.opens_again(rank(0, 2)));
  EXPECT_FALSE(book.opens_again(rank(0, 1 + kOpeningsPerStart))) << "all ranks were started again";
  EXPECT_TRUE(AttachBook({0, 1}, kJob, 7).opens_again(rank(0, 8))) << "of those that come again";
  EXPECT_FALSE(AttachBook({0, 1}, kJob, 7).opens_again(rank(0, 7)));
}

TEST(AttachBook, ALaterAttemptFencesTheEarlier) {
  AttachBook book({0, 1}, kJob);
  ASSERT_TRUE(attach(&book, "a", rank(0)).ok());
  ASSERT_TRUE(attach(&book, "b", rank(1)).ok());
  EXPECT_TRUE(book.fenced_by(rank(1)).empty());
  EXPECT_EQ(book.fenced_by(rank(1, 2)), (std::vector<std::string>{"a", "b"}));
  ASSERT_TRUE(attach(&book, "c", rank(1, 2, "saved")).ok());
  EXPECT_FALSE(book.serving());
  EXPECT_EQ(attach(&book, "d", rank(0, 1)).code(), Code::kCancelled) << "it is over";
  ASSERT_TRUE(attach(&book, "e", rank(0, 2, "saved")).ok());
  EXPECT_TRUE(book.serving());
  EXPECT_EQ(book.state(), "saved");
}

TEST(AttachBook, KnowsWhoIsGone) {
  AttachBook book({0, 1}, kJob);
  ASSERT_TRUE(attach(&book, "a", rank(0)).ok());
  ASSERT_TRUE(attach(&book, "b", rank(1)).ok());
  book.leave("a");
  EXPECT_EQ(book.gone(), std::vector<Rank>{0});
  book.leave("b");
  EXPECT_TRUE(book.attached().empty());
}

TEST(AttachBook, AnotherRunCountsItsAttemptsAnew) {
  AttachBook book({0}, kJob);
  ASSERT_TRUE(attach(&book, "a", rank(0, 7)).ok());
  book.leave("a");
  EXPECT_FALSE(attach(&book, "b", rank(0, 1)).ok());
  book.begin_anew();
  ASSERT_TRUE(attach(&book, "c", rank(0, 1)).ok());
  EXPECT_TRUE(book.serving());
}

TEST(AttachBook, WhoLeavesBeforeServingMayComeAgain) {
  AttachBook book({0, 1}, kJob);
  ASSERT_TRUE(attach(&book, "a", rank(0)).ok());
  book.leave("a");
  EXPECT_TRUE(attach(&book, "b", rank(0)).ok());
}

protocol::Attach again(Rank number, std::string run, uint32_t attempt = 1) {
  protocol::Attach out = rank(number, attempt);
  out.run = std::move(run);
  return out;
}

TEST(AttachBook, ThoseWhoComeAgainGoOnWithoutThoseWhoDoNot) {
  AttachBook book({0, 1, 2}, kJob);
  ASSERT_TRUE(attach(&book, "a", again(0, "run")).ok());
  ASSERT_TRUE(attach(&book, "b", again(2, "run")).ok());
  EXPECT_FALSE(book.serving());
  EXPECT_EQ(book.run(), "run");
  book.go_on_without_missing();
  EXPECT_TRUE(book.serving());
  EXPECT_EQ(book.gone(), std::vector<Rank>{1});
}

TEST(AttachBook, AnotherRunIsRefused) {
  AttachBook book({0, 1}, kJob);
  ASSERT_TRUE(attach(&book, "a", again(0, "run")).ok());
  EXPECT_EQ(attach(&book, "b", again(1, "another")).code(), Code::kCancelled);
  ASSERT_TRUE(attach(&book, "b", rank(1)).ok()) << "it was not welcomed before the node died";
  EXPECT_EQ(book.attached().at("b").returns, 1u) << "it begins where it says, not where they do";
  EXPECT_TRUE(book.serving());
}

TEST(AttachBook, ARankThatWasKilledComesBackWithItsOwnState) {
  AttachBook book({0, 1}, kJob);
  ASSERT_TRUE(attach(&book, "a", rank(0)).ok());
  ASSERT_TRUE(attach(&book, "b", rank(1)).ok());
  EXPECT_EQ(book.attached().at("b").returns, 0u);
  book.welcomed("run");
  EXPECT_FALSE(attach(&book, "c", rank(1, 1, "mine")).ok()) << "the one that is there lives";
  book.leave("b");
  ASSERT_TRUE(attach(&book, "c", rank(1, 1, "mine")).ok());
  EXPECT_EQ(book.attached().at("c").returns, 1u);
  EXPECT_EQ(book.attached().at("a").returns, 0u);
  EXPECT_EQ(book.state(), "") << "where the run began";
  EXPECT_TRUE(book.disagreement().ok());
  EXPECT_TRUE(book.gone().empty());
  book.leave("c");
  ASSERT_TRUE(attach(&book, "d", rank(1, 1, "later")).ok());
  EXPECT_EQ(book.attached().at("d").returns, 2u);
}

TEST(AttachBook, ItMayComeToAKeeperThatComesAgainBeforeTheOthers) {
  AttachBook book({0, 1}, kJob);
  ASSERT_TRUE(attach(&book, "b", rank(1, 1, "mine")).ok());
  EXPECT_EQ(book.attached().at("b").returns, 0u) << "all may begin";
  ASSERT_TRUE(attach(&book, "a", again(0, "run")).ok());
  EXPECT_EQ(book.attached().at("b").returns, 1u);
  EXPECT_EQ(book.state(), "");
  EXPECT_TRUE(book.serving());
}

TEST(AttachBook, ARankWhoseLinkBrokeComesBackWithItsRun) {
  AttachBook book({0, 1}, kJob);
  ASSERT_TRUE(attach(&book, "a", rank(0)).ok());
  ASSERT_TRUE(attach(&book, "b", rank(1)).ok());
  book.welcomed("run");
  book.leave("b");
  ASSERT_TRUE(attach(&book, "c", again(1, "run")).ok());
  EXPECT_EQ(book.attached().at("c").returns, 0u);
  EXPECT_TRUE(book.gone().empty());
  EXPECT_TRUE(book.serving());
}

TEST(AttachBook, ALaterAttemptHasARunOfItsOwn) {
  AttachBook book({0, 1}, kJob);
  ASSERT_TRUE(attach(&book, "a", again(0, "run")).ok());
  ASSERT_TRUE(attach(&book, "b", rank(1, 2)).ok());
  EXPECT_EQ(book.run(), "");
}

}  // namespace
}  // namespace overlord::keeper
