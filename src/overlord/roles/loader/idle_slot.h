// IdleSlot: when a slot that its source has no use for any more gives back what it holds: once the
// plans are through that may name what it has read.
#pragma once

#include <cstdint>
#include <optional>

#include "overlord/base/ids.h"

namespace overlord::loader {

class IdleSlot {
 public:
  // Whether now is the time; once, until it reads again or is asked for something. It hears nothing
  // of steps that it reads nothing of, but `granted` windows are told to all slots: when as many as
  // `runway` steps have come since, what it had in store is as good as served.
  bool gives_back(bool reads, bool at_work, uint64_t granted, uint32_t runway) {
    if (reads || at_work) {
      since_.reset();
      given_back_ = false;
      return false;
    }
    if (!since_) since_ = granted;
    if (given_back_ || granted <= *since_ + runway) return false;
    given_back_ = true;
    return true;
  }

 private:
  std::optional<uint64_t> since_;  // it has been idle; the plan that was newest then
  bool given_back_ = false;
};

}  // namespace overlord::loader
