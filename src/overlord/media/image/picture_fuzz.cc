// Entry for a fuzzer: header readers and decoders of all formats (foreign_pictures_test.h).
// Needs codecs: JPEG PNG WEBP
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "overlord/media/image/foreign_pictures_test.h"

std::vector<std::string> fuzz_seeds() { return overlord::media::good_pictures(); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::media::takes_picture({reinterpret_cast<const char*>(data), size});
  return 0;
}
