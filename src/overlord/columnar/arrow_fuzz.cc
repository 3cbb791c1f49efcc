// Entry for a fuzzer: the bytes are an Arrow IPC shard, file or stream.
#include <cstddef>
#include <cstdint>

#include "overlord/columnar/foreign_arrow_test.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::columnar::takes_arrow({reinterpret_cast<const char*>(data), size});
  return 0;
}
