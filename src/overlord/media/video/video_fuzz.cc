// Entry for a fuzzer: readers of containers and decoders of clips (foreign_clips_test.h).
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "overlord/media/video/foreign_clips_test.h"
#include "overlord/media/video/kept_clips.h"

std::vector<std::string> fuzz_seeds() {
  std::vector<std::string> seeds;
  for (const std::string_view clip : overlord::media::kept_clips()) seeds.emplace_back(clip);
  return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::media::takes_clip({reinterpret_cast<const char*>(data), size});
  return 0;
}
