// Entry for a fuzzer: the bytes are an Arrow IPC shard, file or stream.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "overlord/columnar/formats/arrow/arrow_writer_test.h"
#include "overlord/columnar/formats/arrow/foreign_arrow_test.h"

std::vector<std::string> fuzz_seeds() {
  using overlord::columnar::ipc_bytes;
  const auto table = overlord::columnar::small_table();
  return {ipc_bytes(*table), ipc_bytes(*table, {.file = true}),
          ipc_bytes(*table, {.file = true, .compression = arrow::Compression::LZ4_FRAME}),
          ipc_bytes(*overlord::columnar::unplain_table()),
          ipc_bytes(*overlord::columnar::unplain_table(), {.file = true})};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::columnar::takes_arrow({reinterpret_cast<const char*>(data), size});
  return 0;
}
