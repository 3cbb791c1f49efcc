// FeedbackLedger: the feedback that a resume state must bring along. A state after step k is made
// with plan k (law 7), before anybody has reported k; what was reported of the steps up to k and
// does not count yet is added when the state is asked for. Single-threaded; its owner guards it.
#pragma once

#include <map>
#include <optional>

#include "overlord/host/open_job.h"

namespace overlord::host {

class FeedbackLedger {
 public:
  // `kept_steps`: how far a rank may lie behind the newest report.
  explicit FeedbackLedger(const std::vector<model::StepFeedback>& start, uint64_t kept_steps = 64);

  void add(const model::StepFeedback& feedback);
  const model::StepFeedback* find(StepIndex step) const;
  // Whether it was known and is kept no more.
  bool dropped(StepIndex step) const { return step < dropped_before_; }
  // Gives the state the feedback it needs, no more and no less, so that it is the same on every
  // rank; or the first step of which something is missing.
  std::optional<StepIndex> attach(protocol::ResumeState* state) const;

 private:
  std::map<StepIndex, model::StepFeedback> steps_;
  uint64_t kept_steps_;
  StepIndex dropped_before_ = 0;
};

// Steps [first, state.next_step) whose feedback a run from this state needs.
StepIndex first_needed_feedback(const model::StreamState& state);

}  // namespace overlord::host
