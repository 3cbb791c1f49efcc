// The largest allocation of this test binary since a moment, to prove that a lying size in a few
// bytes does not cost memory.
#pragma once

#include <cstddef>

namespace overlord::protocol {

void forget_largest_allocation();
size_t largest_allocation();

}  // namespace overlord::protocol
