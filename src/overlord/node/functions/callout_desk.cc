#include "overlord/node/functions/callout_desk.h"

#include <utility>

namespace overlord::node {

void CalloutDesk::ask(model::CalloutRequest request, planner::CalloutDone done) {
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (questions_.closed()) return;
    number = ++asked_;
    waiting_.emplace(number, std::move(done));
  }
  questions_.push({number, std::move(request)});
}

void CalloutDesk::answer(uint64_t number, Result<std::vector<int64_t>> values) {
  // Told under the lock, so that close() ends it: whoever waits only notes it down.
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  const planner::CalloutDone done = std::move(found->second);
  waiting_.erase(found);
  done(std::move(values));
}

void CalloutDesk::close() {
  questions_.close();
  const std::lock_guard lock(mutex_);
  waiting_.clear();
}

}  // namespace overlord::node
