// IdleSlot: when a slot that its source has no use for any more gives back what it holds: once the
// plans are through that may name what it has read.
#pragma once

#include <cstdint>
#include <optional>

#include "overlord/base/ids.h"

namespace overlord::loader {

class IdleSlot {
 public:
  // Whether now is the time; once, until it reads again or is asked for something. `newest`: plan
  // that is known; plans older than it by `runway` are served to all.
  bool gives_back(bool reads, bool at_work, StepIndex newest, uint32_t runway) {
    if (reads || at_work) {
      since_.reset();
      given_back_ = false;
      return false;
    }
    if (!since_) since_ = newest;
    if (given_back_ || newest <= *since_ + runway) return false;
    given_back_ = true;
    return true;
  }

 private:
  std::optional<StepIndex> since_;  // it has been idle; the plan that was newest then
  bool given_back_ = false;
};

}  // namespace overlord::loader
