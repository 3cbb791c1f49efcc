// Which buffers go back to the system when they are freed.
#include "overlord/node/process_memory.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>

namespace overlord::node {
namespace {

// Whether a buffer of so many megabytes is mapped for itself alone: larger than what is free.
bool mapped_alone(size_t megabytes) {
  malloc_trim(0);
  const size_t before = mallinfo2().hblks;
  void* volatile buffer = std::malloc(megabytes << 20);
  const bool mapped = mallinfo2().hblks == before + 1;
  std::free(buffer);
  return mapped;
}

TEST(ProcessMemory, LargeBuffersGoBackUnlessTheWireKeepsThem) {
  if (!mapped_alone(100)) GTEST_SKIP() << "another malloc";
  give_back_what_is_freed();
  EXPECT_TRUE(mapped_alone(30));
  EXPECT_TRUE(mapped_alone(30)) << "the first one has not raised the bar";
  keep_large_buffers();
  EXPECT_FALSE(mapped_alone(30));
  EXPECT_TRUE(mapped_alone(33));
  give_back_what_is_freed();
  EXPECT_TRUE(mapped_alone(30));
}

}  // namespace
}  // namespace overlord::node
