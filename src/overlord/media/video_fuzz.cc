// Entry for a fuzzer: readers of containers and decoders of clips (foreign_clips_test.h).
#include <cstddef>
#include <cstdint>

#include "overlord/media/foreign_clips_test.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::media::takes_clip({reinterpret_cast<const char*>(data), size});
  return 0;
}
