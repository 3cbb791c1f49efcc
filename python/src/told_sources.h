// What Python tells of sources when a run starts, by name.
#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <string>

#include "fields_dict.h"
#include "job_handle.h"

namespace overlord::python {

inline ToldSources told_sources(const std::map<std::string, nanobind::dict>& told) {
  ToldSources out;
  for (const auto& [name, values] : told) read_fields(values, "told." + name, &out[name]);
  return out;
}

}  // namespace overlord::python
