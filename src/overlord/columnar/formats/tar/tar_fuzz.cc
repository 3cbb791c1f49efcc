// Entry for a fuzzer: the bytes are a tar shard, plain and as its own compressed forms.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "overlord/columnar/formats/tar/foreign_tar_test.h"
#include "overlord/columnar/formats/tar/tar_writer_test.h"

std::vector<std::string> fuzz_seeds() {
  overlord::columnar::TarWriter plain;
  plain.add("a/1.txt", "one");
  plain.add("a/1.jpg", std::string(600, 'j'));
  plain.add("a/2.txt", "two");
  overlord::columnar::TarWriter long_names;
  long_names.add_gnu_long(std::string(150, 'n') + ".txt", "three");
  long_names.add_pax(overlord::columnar::TarWriter::record("path", "b/3.txt"), "x", "four");
  long_names.wide_size = true;
  long_names.add("b/4.txt", "five");
  const std::string end(1024, '\0');
  return {plain.bytes + end, long_names.bytes + end, plain.bytes};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::columnar::takes_tar({reinterpret_cast<const char*>(data), size});
  return 0;
}
