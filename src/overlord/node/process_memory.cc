#include "overlord/node/process_memory.h"

#include <malloc.h>

namespace overlord::node {

void give_back_what_is_freed() {
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 64 << 10);
}

void keep_large_buffers() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

}  // namespace overlord::node
