// Any bytes as a shard of JSON lines (plain and compressed), Megatron tokens or Parquet: it is
// indexed, and every row the index knows is read. For the fuzz target.
#pragma once

#include <string>
#include <string_view>

#include "overlord/base/check.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {

// Kinds of shards, by the first byte of an input.
enum ForeignRows : uint8_t { kLines, kGzipLines, kZstdLines, kMegatron, kParquet, kForeignKinds };

inline model::Source foreign_rows_source(ForeignRows kind, bool tokens) {
  constexpr const char* kUris[] = {"mem:/a.jsonl", "mem:/a.jsonl.gz", "mem:/a.jsonl.zst",
                                   "mem:/a.bin", "mem:/a.parquet"};
  model::Source source;
  source.name = "web";
  source.format = kind == kMegatron  ? model::Format::kMegatron
                  : kind == kParquet ? model::Format::kParquet
                                     : model::Format::kJsonl;
  source.files = {kUris[kind]};
  if (kind != kMegatron)
    (tokens ? source.token_column : source.text_column) = tokens ? "tokens" : "text";
  source.vocabulary = 1000;
  source.limits.max_block_bytes = 1 << 20;
  source.limits.max_document_bytes = 1 << 16;
  return source;
}

// Aborts on anything but rows or a Status.
inline void takes_rows(std::string_view input) {
  if (input.empty()) return;
  const auto kind = static_cast<ForeignRows>(static_cast<uint8_t>(input[0]) % kForeignKinds);
  const std::string bytes(input.substr(1));
  for (const bool tokens : {true, false}) {
    if (kind == kMegatron && !tokens) return;
    const model::Source source = foreign_rows_source(kind, tokens);
    runtime::MemoryStorage storage;
    storage.put(source.files.front(), kind == kMegatron ? std::string(64, '\1') : bytes);
    if (kind == kMegatron) storage.put("mem:/a.idx", bytes);
    const auto index = build(storage, source);
    if (!index.ok()) {
      OVERLORD_CHECK(!index.status().message().empty(), "a refusal without a reason");
      continue;
    }
    const auto reader = (*index)->reader();
    OVERLORD_CHECK(reader.ok(), "a fresh index has a reader");
    for (uint32_t block = 0; block < (*index)->manifest().blocks.size(); ++block) {
      // Rows are looked at here for the first time: they may be refused.
      static_cast<void>(read_block(storage, **index, **reader, {block, {}, nullptr}).ok());
    }
  }
}

}  // namespace overlord::columnar
