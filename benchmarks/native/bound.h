// The bind functions of _bench_core, and how what fails is told to Python.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "overlord/base/status.h"

namespace overlord::bench {

void bind_planning(nanobind::module_& module);
void bind_publishing(nanobind::module_& module);
void bind_mixing(nanobind::module_& module);
void bind_baselines(nanobind::module_& module);

template <typename T>
T unwrap(Result<T> result) {
  if (!result.ok()) throw nanobind::value_error(result.status().message().c_str());
  return std::move(result).value();
}

}  // namespace overlord::bench
