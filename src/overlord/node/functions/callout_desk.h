// CalloutDesk: where the planner leaves its questions to users' functions and somebody else, on a
// thread of its own, takes them, calls the function, and answers. Neither side waits for the other:
// a function that never returns holds up the stream and nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/model/callout.h"
#include "overlord/roles/planner/callouts.h"
#include "overlord/runtime/handoff.h"

namespace overlord::node {

class CalloutDesk final : public planner::Callouts {
 public:
  struct Question {
    uint64_t number = 0;
    model::CalloutRequest request;
  };

  void ask(model::CalloutRequest request, planner::CalloutDone done) override;

  // The next question; nothing when none came in time, or when the desk is closed.
  std::optional<Question> take(int64_t timeout_ms) { return questions_.pop(timeout_ms); }
  // Answers that nobody waits for any more are dropped.
  void answer(uint64_t number, Result<std::vector<int64_t>> values);
  // Nobody is told anything after it returned. Idempotent.
  void close();
  bool closed() const { return questions_.closed(); }

 private:
  runtime::Handoff<Question> questions_;
  std::mutex mutex_;
  std::map<uint64_t, planner::CalloutDone> waiting_ OVERLORD_GUARDED_BY(mutex_);
  uint64_t asked_ OVERLORD_GUARDED_BY(mutex_) = 0;
};

}  // namespace overlord::node
