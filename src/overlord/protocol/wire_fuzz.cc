// Entry for a fuzzer: the first byte chooses between envelopes, plans, views and jobs
// (foreign_bytes_test.h). Anything but a Status or the one encoding of a value aborts.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "overlord/protocol/foreign_bytes_test.h"

namespace {

overlord::protocol::MadeUpWorld& world() {
  static overlord::protocol::MadeUpWorld made(4, true);
  return made;
}

}  // namespace

std::vector<std::string> fuzz_seeds() { return overlord::protocol::good_inputs(world(), 3); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const char* const region = world().regions.add(4096);  // for references to point into
  overlord::protocol::takes_bytes({reinterpret_cast<const char*>(data), size}, world());
  (void)region;
  return 0;
}
