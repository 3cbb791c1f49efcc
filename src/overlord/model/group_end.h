// GroupEnd: how a group of roles has ended. Told by the cluster that it lived in, and between
// hosts.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/base/fields.h"

namespace overlord::model {

struct GroupEnd {
  std::string name;
  uint32_t generation = 0;
  std::string how;         // "exit status 1", "signal 9"
  std::string last_words;  // of its log; may be empty
  bool by_itself = false;  // it exited; nobody killed it
  bool host_left = false;  // with all that lived there: no fault of its own

  OVERLORD_FIELDS(name, generation, how, last_words, by_itself, host_left)
};

}  // namespace overlord::model
