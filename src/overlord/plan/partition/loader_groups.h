// Which sources share processes, and which have processes of their own: those that are declared to,
// those that cost as much as all others together, and those that run a user's Python, apart from
// those that do not. Pure; the reasons are for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "overlord/base/ids.h"
#include "overlord/model/source.h"

namespace overlord::plan {

struct LoaderGroup {
  std::vector<SourceIndex> sources;
  uint32_t processes = 1;  // over which their slots are dealt
  std::string reason = {};
  bool apart = true;  // from those that nothing sets apart
};

struct GroupingRule {
  uint32_t processes = 1;  // over which sources are dealt that nothing sets apart
  // Declared: those of a list share a process of their own.
  std::vector<std::vector<std::string>> isolated = {};
  bool by_rule = true;
};

// Whether rows of it go through a user's code.
bool runs_python(const model::Source& source);

// Those that nothing sets apart come first, if there are any; then the others, by the first source
// of each. A heavy one takes processes of theirs, as many as is its part of the work, and where
// there is one process it stays in it; users' Python has one more.
std::vector<LoaderGroup> loader_groups(const std::vector<model::Source>& sources,
                                       const GroupingRule& rule);

}  // namespace overlord::plan
