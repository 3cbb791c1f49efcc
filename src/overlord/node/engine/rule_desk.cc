#include "overlord/node/engine/rule_desk.h"

#include <utility>

namespace overlord::node {

void RuleDesk::ask(Rank rank, model::StepFeedback question) {
  {
    const std::lock_guard lock(mutex_);
    asked_ = rank;
  }
  questions_.push(std::move(question));
}

void RuleDesk::answer(StepIndex step, Result<std::vector<int64_t>> weights) {
  // Told under the lock, so that close() ends it: sending only notes it down.
  const std::lock_guard lock(mutex_);
  if (questions_.closed()) return;
  if (weights.ok()) {
    tell_(asked_, protocol::Report{{step, {}, std::move(*weights)}});
  } else {
    tell_(asked_, protocol::StreamFailed{step, weights.status()});
  }
}

void RuleDesk::close() {
  questions_.close();
  const std::lock_guard lock(mutex_);  // an answer that has begun is through
}

}  // namespace overlord::node
