// What a resume state waits for, and how long it can be had.
#include "overlord/node/engine/state_book.h"

#include <gtest/gtest.h>

#include "overlord/host/made_up_job_test.h"

namespace overlord::node {
namespace {

model::StepFeedback fed(StepIndex step) { return {step, {{0, 1, 1}}, {}}; }

protocol::ResumeState start_of_one() {
  host::MadeUpJob made_up;
  made_up.add(host::made_up_rows(host::made_up_source("s"), 8));
  return host::start_state(**made_up.open());
}

// Where a rank stands before `next_step`, its mixture following losses of `delay` steps before.
host::Place place_before(StepIndex next_step, uint32_t delay) {
  auto state = std::make_shared<model::StreamState>();
  state->next_step = next_step;
  state->cursors.resize(1);
  state->controller.kind = model::ControllerKind::kOdm;
  state->controller.delay = delay;
  state->controller.sources.resize(1);
  host::Place place;
  place.next_step = next_step;
  place.after = state;
  return place;
}

TEST(StateBook, AStateBringsTheFeedbackItNeedsAndNoOther) {
  protocol::ResumeState start = start_of_one();
  start.feedback = {fed(3), fed(4)};
  StateBook book(start, 8);
  book.fed_back(fed(5));
  const auto bytes = book.encode(place_before(6, 2), 0);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  const auto state = protocol::decode_resume_state(*bytes);
  ASSERT_TRUE(state.ok()) << state.status().message();
  EXPECT_EQ(state->source_names, start.source_names);
  EXPECT_EQ(state->state.next_step, 6u);
  EXPECT_EQ(state->feedback, (std::vector{fed(4), fed(5)}));
}

TEST(StateBook, NamesTheFirstStepThatNotAllHaveReported) {
  StateBook book({}, 8);
  book.fed_back(fed(4));
  const Status late = book.encode(place_before(6, 3), 0).status();
  EXPECT_EQ(late.code(), Code::kDeadline);
  EXPECT_NE(late.message().find("step 3, and not every reporter"), std::string::npos)
      << late.message();
  book.fed_back(fed(3));
  const Status later = book.encode(place_before(6, 3), 0).status();
  EXPECT_NE(later.message().find("step 5, and not every"), std::string::npos) << later.message();
  EXPECT_TRUE(KeptPlace(std::make_shared<StateBook>(protocol::ResumeState(), 8), {}).state(0).ok())
      << "a stream without feedback waits for none";
}

TEST(StateBook, APlaceTooLongAgoIsRefusedWithoutAWait) {
  constexpr uint64_t kKept = 2 + StateBook::kPlacesKept;
  StateBook book(start_of_one(), 2);
  for (StepIndex step = 0; step <= kKept; ++step) book.fed_back(fed(step));
  EXPECT_TRUE(book.encode(place_before(1, 1), 0).ok()) << "as far behind as it may be";
  book.fed_back(fed(kKept + 1));
  const Status gone = book.encode(place_before(1, 1), 600'000).status();
  EXPECT_EQ(gone.code(), Code::kOutOfRange);
  EXPECT_NE(gone.message().find("step 0, which is too long ago"), std::string::npos)
      << gone.message();
}

}  // namespace
}  // namespace overlord::node
