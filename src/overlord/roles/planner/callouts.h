// Callouts: the seam through which the planner asks a user's own functions. The planner waits for
// the answer, however long it takes (law 1), and its loop never blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/callout.h"

namespace overlord::planner {

// Whole numbers: costs of samples, or seats of bins. An error's message says what is wrong with the
// function; who was asked, and about which step, is added by the planner.
using CalloutDone = std::function<void(Result<std::vector<int64_t>>)>;

class Callouts {
 public:
  virtual ~Callouts() = default;
  // Calls `done` once, from any thread, whenever the function has answered.
  virtual void ask(model::CalloutRequest request, CalloutDone done) = 0;
};

}  // namespace overlord::planner
