#include "overlord/host/feedback_ledger.h"

#include <algorithm>

namespace overlord::host {

StepIndex first_needed_feedback(const model::StreamState& state) {
  const model::ControllerState& controller = state.controller;
  if (controller.kind == model::ControllerKind::kNone) return state.next_step;
  const StepIndex first = state.next_step - std::min<StepIndex>(state.next_step, controller.delay);
  return std::min(std::max(first, controller.since), state.next_step);
}

FeedbackLedger::FeedbackLedger(const std::vector<model::StepFeedback>& start, uint64_t kept_steps)
    : kept_steps_(kept_steps) {
  for (const model::StepFeedback& feedback : start) steps_[feedback.step] = feedback;
}

void FeedbackLedger::add(const model::StepFeedback& feedback) {
  steps_[feedback.step] = feedback;
  while (steps_.begin()->first + kept_steps_ < feedback.step) {
    dropped_before_ = steps_.begin()->first + 1;
    steps_.erase(steps_.begin());
  }
}

const model::StepFeedback* FeedbackLedger::find(StepIndex step) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? nullptr : &found->second;
}

std::optional<StepIndex> FeedbackLedger::attach(protocol::ResumeState* state) const {
  state->feedback.clear();
  for (StepIndex step = first_needed_feedback(state->state); step < state->state.next_step;
       ++step) {
    const model::StepFeedback* feedback = find(step);
    if (feedback == nullptr) return step;
    state->feedback.push_back(*feedback);
  }
  return std::nullopt;
}

}  // namespace overlord::host
