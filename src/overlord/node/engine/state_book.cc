#include "overlord/node/engine/state_book.h"

#include <chrono>
#include <optional>

#include "overlord/base/guarded_by.h"

namespace overlord::node {

StateBook::StateBook(const protocol::ResumeState& start, uint64_t kept_feedback)
    : start_(start), ledger_(start.feedback, kept_feedback + kPlacesKept) {
  start_.feedback.clear();  // of the steps before the start; the ledger gives what is needed
}

void StateBook::fed_back(const model::StepFeedback& feedback) {
  const std::lock_guard lock(mutex_);
  ledger_.add(feedback);
  grown_.notify_all();
}

Result<std::string> StateBook::encode(const host::Place& place, int64_t timeout_ms) {
  protocol::ResumeState state = host::state_of(start_, place);
  std::optional<StepIndex> missing;
  {
    std::unique_lock lock(mutex_);
    is_held(mutex_);
    grown_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&]() OVERLORD_REQUIRES(mutex_) {
      missing = ledger_.attach(&state);
      return !missing || ledger_.dropped(*missing);
    });
    if (missing && ledger_.dropped(*missing)) {
      return Status(Code::kOutOfRange, "a state needs what was reported of step " +
                                           std::to_string(*missing) +
                                           ", which is too long ago to be kept");
    }
  }
  if (missing) {
    return Status(Code::kDeadline, "a state needs what was reported of step " +
                                       std::to_string(*missing) +
                                       ", and not every reporter has reported it");
  }
  return protocol::encode_resume_state(state);
}

}  // namespace overlord::node
