// Entry for a fuzzer: header readers and decoders of all sound formats (foreign_sounds_test.h).
// Needs codecs: AUDIO
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "overlord/media/audio/foreign_sounds_test.h"

std::vector<std::string> fuzz_seeds() { return overlord::media::good_sounds(); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::media::takes_sound({reinterpret_cast<const char*>(data), size});
  return 0;
}
