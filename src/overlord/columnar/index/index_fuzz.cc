// Entry for a fuzzer: the first byte chooses a source, the others are its index file.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "overlord/columnar/index/foreign_index_test.h"

std::vector<std::string> fuzz_seeds() {
  const overlord::columnar::IndexedWorld world;
  std::vector<std::string> seeds;
  for (size_t i = 0; i < world.indexes.size(); ++i) {
    seeds.push_back(static_cast<char>(i) + world.indexes[i]);
  }
  return seeds;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::columnar::takes_index({reinterpret_cast<const char*>(data), size});
  return 0;
}
