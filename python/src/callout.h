// Call-outs between the planner and Python: requests as dicts, answers as arrays of whole numbers.
#pragma once

#include <nanobind/nanobind.h>

#include "overlord/model/callout.h"
#include "overlord/node/engine/plan_cursor.h"

namespace overlord::python {

// Columns as arrays; whoever gets it owns them.
nanobind::dict request_dict(const model::CalloutRequest& request);

// Calls `function(request)`, which gives an int64 array, or a text that says what is wrong. What it
// raises (an interrupt) is kept for rethrow().
class FunctionCaller {
 public:
  explicit FunctionCaller(nanobind::object function) : function_(std::move(function)) {}
  Result<std::vector<int64_t>> call(const model::CalloutRequest& request);
  void rethrow();

  // For the garbage collector: a function reaches the globals of its module, and they whoever calls
  // it. Forgotten, it answers no more.
  nanobind::handle function() const { return function_; }
  void forget() { function_.reset(); }

 private:
  nanobind::object function_;
  std::exception_ptr raised_;
};

}  // namespace overlord::python
