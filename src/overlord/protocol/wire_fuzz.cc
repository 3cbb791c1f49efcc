// Entry for a fuzzer: the first byte chooses between envelopes, plans, views and jobs
// (foreign_bytes_test.h). Anything but a Status or the one encoding of a value aborts.
#include <cstddef>
#include <cstdint>

#include "overlord/protocol/foreign_bytes_test.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static overlord::protocol::MadeUpWorld world(4, true);
  static const char* const region = world.regions.add(4096);  // for references to point into
  overlord::protocol::takes_bytes({reinterpret_cast<const char*>(data), size}, world);
  (void)region;
  return 0;
}
