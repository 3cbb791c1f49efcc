// Documents that a state carries over and that the state before it carried as well: most of them
// wait for a place for some steps, so each is a bit, and the state is told without them.
#pragma once

#include <string>
#include <string_view>

#include "overlord/base/status.h"

namespace overlord::protocol {

struct Leftover {
  std::string kept;   // bits, of the documents of the state before; empty: none is kept
  std::string state;  // encoded, without those
};
Leftover without_kept(std::string_view before, std::string_view after);
// The state after. kBadData: what no writer wrote.
Result<std::string> with_kept(std::string_view before, Leftover leftover);

}  // namespace overlord::protocol
