// When rows found bad after the last plan are more than a source allows.
#include "overlord/node/engine/late_rows.h"

#include <gtest/gtest.h>

namespace overlord::node {
namespace {

loader::QuarantineNote note_of(SourceIndex source, bool late = true) {
  return {{source, 0, 0}, 0, "torn", late};
}

model::StreamState end_of(std::vector<model::SourceCursor> cursors) {
  model::StreamState state;
  state.cursors = std::move(cursors);
  return state;
}

TEST(LateRows, CountWithThoseThatStepsHaveSeen) {
  const std::vector<BadRowLimit> limits = {{"a", 0}, {"b", 3}};
  model::SourceCursor seen;
  seen.bad = 2;
  const model::StreamState end = end_of({{}, seen});
  EXPECT_TRUE(late_rows_over_budget({note_of(1)}, limits, end).ok()) << "three are allowed";
  const Status over = late_rows_over_budget({note_of(1), note_of(1)}, limits, end);
  EXPECT_EQ(over.code(), Code::kBudgetExceeded);
  EXPECT_EQ(over.message(),
            "source b: 4 bad rows, allowed 3 a pass; last: torn; raise bad_rows_allowed or repair "
            "the data");
  EXPECT_EQ(late_rows_over_budget({note_of(0)}, limits, end).code(), Code::kBudgetExceeded)
      << "none is allowed";
}

TEST(LateRows, EveryPassAllowsSoManyAgain) {
  model::SourceCursor third;
  third.pass = 2;
  third.bad = 2;
  const std::vector<BadRowLimit> limits = {{"a", 1}};
  EXPECT_TRUE(late_rows_over_budget({note_of(0)}, limits, end_of({third})).ok());
  EXPECT_FALSE(late_rows_over_budget({note_of(0), note_of(0)}, limits, end_of({third})).ok());
}

TEST(LateRows, ThoseThatWereKnownInTimeAreCountedBySteps) {
  const std::vector<BadRowLimit> limits = {{"a", 0}};
  EXPECT_TRUE(late_rows_over_budget({note_of(0, false)}, limits, end_of({{}})).ok());
  EXPECT_TRUE(late_rows_over_budget({note_of(5)}, limits, end_of({{}})).ok()) << "of nobody here";
}

TEST(LateRows, LimitsAreThoseOfTheSources) {
  model::JobSpec spec;
  spec.sources.resize(2);
  spec.sources[1].name = "b";
  spec.sources[1].bad_rows_allowed = 4;
  const std::vector<BadRowLimit> limits = bad_row_limits(spec);
  ASSERT_EQ(limits.size(), 2u);
  EXPECT_EQ(limits[1].source, "b");
  EXPECT_EQ(limits[1].allowed, 4u);
}

}  // namespace
}  // namespace overlord::node
