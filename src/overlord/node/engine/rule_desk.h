// RuleDesk: where the planner's questions to a user's mixing rule wait, in the process of the first
// reporter, for the thread that calls it. Neither side waits for the other: a rule that never
// returns holds up the stream and nothing else.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/protocol/messages.h"
#include "overlord/runtime/handoff.h"

namespace overlord::node {

class RuleDesk {
 public:
  using Tell = std::function<void(Rank, protocol::Message)>;  // the planner, as this rank

  explicit RuleDesk(Tell tell) : tell_(std::move(tell)) {}

  void ask(Rank rank, model::StepFeedback question);
  // The losses of a step and the newest weights; nothing when none came in time, or when closed.
  std::optional<model::StepFeedback> take(int64_t timeout_ms) { return questions_.pop(timeout_ms); }
  // What the rule says of the step that it was asked about.
  void answer(StepIndex step, Result<std::vector<int64_t>> weights);
  // Nobody is told anything after it returned. Idempotent.
  void close();
  bool closed() const { return questions_.closed(); }

 private:
  runtime::Handoff<model::StepFeedback> questions_;
  std::mutex mutex_;
  Tell tell_ OVERLORD_GUARDED_BY(mutex_);
  Rank asked_ OVERLORD_GUARDED_BY(mutex_) = 0;  // in whose name it answers
};

}  // namespace overlord::node
