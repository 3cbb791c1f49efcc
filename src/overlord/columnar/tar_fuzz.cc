// Entry for a fuzzer: the bytes are a tar shard, plain and as its own compressed forms.
#include <cstddef>
#include <cstdint>

#include "overlord/columnar/foreign_tar_test.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::columnar::takes_tar({reinterpret_cast<const char*>(data), size});
  return 0;
}
