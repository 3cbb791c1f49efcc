// for_each_parallel(): one loop over a few threads, for start-up work such as indexing.
// Blocks until all is done; never called from a role thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace overlord::runtime {

// Calls body(0) ... body(count - 1), each once, in ascending order of their starts, on the calling
// thread and up to `threads` - 1 more.
void for_each_parallel(uint32_t threads, size_t count, const std::function<void(size_t)>& body);

}  // namespace overlord::runtime
