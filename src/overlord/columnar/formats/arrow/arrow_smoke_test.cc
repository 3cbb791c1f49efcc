// A short run of what the fuzz target does: shards with bytes changed at random, always the same.
#include <gtest/gtest.h>

#include "overlord/base/rng.h"
#include "overlord/columnar/formats/arrow/arrow_writer_test.h"
#include "overlord/columnar/formats/arrow/foreign_arrow_test.h"

namespace overlord::columnar {
namespace {

TEST(ArrowSmoke, AnyBytesAreRowsOrAStatus) {
  const auto table = small_table();
  uint64_t drawn = 0;
  const auto below = [&](uint64_t n) { return random_u64(20, drawn++) % n; };
  for (const IpcForm& form :
       {IpcForm{false}, IpcForm{true}, IpcForm{true, 2, arrow::Compression::LZ4_FRAME},
        IpcForm{false, 2, arrow::Compression::ZSTD}}) {
    const std::string good = ipc_bytes(*table, form);
    takes_arrow(good);
    for (int round = 0; round < 400; ++round) {
      std::string bytes = good;
      const uint64_t changes = 1 + below(4);
      for (uint64_t i = 0; i < changes; ++i) {
        bytes[below(bytes.size())] = static_cast<char>(below(256));
      }
      if (below(8) == 0) bytes.resize(below(bytes.size()));
      takes_arrow(bytes);
    }
  }
}

}  // namespace
}  // namespace overlord::columnar
