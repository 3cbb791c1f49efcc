// Status -> Python exception. Every Overlord error derives from OverlordError and from the built-in
// that a caller would expect.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "overlord/base/status.h"

namespace overlord::python {

void bind_errors(nanobind::module_& module);
// The code of an exception's name; kInternal for others.
Code code_named(const std::string& name);
// Throws the exception of `status`; the GIL must be held.
[[noreturn]] void raise(const Status& status);

inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}

template <typename T>
T unwrap(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

}  // namespace overlord::python
