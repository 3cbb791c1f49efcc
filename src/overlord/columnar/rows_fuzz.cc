// Entry for a fuzzer: the first byte chooses a kind of shard, the others are the shard.
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <parquet/arrow/writer.h>
#include <zlib.h>
#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "overlord/columnar/foreign_rows_test.h"
#include "overlord/columnar/formats/mds/mds_writer_test.h"

namespace overlord::columnar {
namespace {

std::string gzip(const std::string& text) {
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 256, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string parquet_bytes() {
  arrow::ListBuilder lists(arrow::default_memory_pool(), std::make_shared<arrow::Int32Builder>());
  auto* const values = static_cast<arrow::Int32Builder*>(lists.value_builder());
  arrow::StringBuilder texts;
  for (int row = 0; row < 40; ++row) {
    (void)lists.Append();
    for (int i = 0; i <= row % 7; ++i) (void)values->Append(row * 7 + i);
    (void)texts.Append("row " + std::to_string(row));
  }
  const auto table =
      arrow::Table::Make(arrow::schema({arrow::field("tokens", arrow::list(arrow::int32())),
                                        arrow::field("text", arrow::utf8())}),
                         {lists.Finish().ValueOrDie(), texts.Finish().ValueOrDie()});
  const auto sink = arrow::io::BufferOutputStream::Create().ValueOrDie();
  (void)parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, 16);
  return (*sink->Finish())->ToString();
}

std::vector<std::string> good_rows() {
  std::string lines;
  for (int row = 0; row < 20; ++row) {
    lines += "{\"text\": \"row \\u00e9 " + std::to_string(row) + "\", \"tokens\": [1, " +
             std::to_string(row) + ", 999]}\n";
  }
  const auto input = [](ForeignRows kind, const std::string& bytes) {
    return static_cast<char>(kind) + bytes;
  };
  const std::string row = R"({"text": "a", "tokens": [1], "path": ["x.wav"], "from": 0.5, "to": 2})";
  return {input(kLines, lines),
          input(kArray, "[" + row + ", {\"text\": \"b]\\\"\", \"path\": \"no.wav\"}, 7 ]"),
          input(kTable, "text,path,from,to\na,x.wav,0.5,\n\"b, \"\"c\"\"\nd\",../x.wav,,2\n"),
          input(kGzipLines, gzip(lines)),
          input(kZstdLines, zstd(lines)),
          input(kMegatron, testing::megatron_idx({2, 3, 20}, 1, 1)),
          input(kMegatron, testing::megatron_idx({2, 3, 4}, 8, 2, {0, 2, 3})),
          input(kParquet, parquet_bytes()),
          input(kBareTokens, std::string("\1\0\2\0\x09\0\3\0", 8)),
          input(kMds, some_mds_shard())};
}

}  // namespace
}  // namespace overlord::columnar

std::vector<std::string> fuzz_seeds() { return overlord::columnar::good_rows(); }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  overlord::columnar::takes_rows({reinterpret_cast<const char*>(data), size});
  return 0;
}
