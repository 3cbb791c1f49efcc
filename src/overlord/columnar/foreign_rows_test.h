// Any bytes as a shard of JSON lines (plain and compressed) or one JSON array, CSV, Megatron tokens,
// Parquet, bare tokens or MDS: it is indexed, and every row the index knows is read, with its media
// and the files that rows of arrays and CSV name. For the fuzz target.
#pragma once

#include <string>
#include <string_view>

#include "overlord/base/check.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {

// Kinds of shards, by the first byte of an input.
enum ForeignRows : uint8_t {
  kLines,
  kGzipLines,
  kZstdLines,
  kMegatron,
  kParquet,
  kBareTokens,
  kMds,
  kArray,
  kTable,
  kForeignKinds
};

inline model::Format foreign_format(ForeignRows kind) {
  switch (kind) {
    case kMegatron:
      return model::Format::kMegatron;
    case kParquet:
      return model::Format::kParquet;
    case kBareTokens:
      return model::Format::kTokens;
    case kMds:
      return model::Format::kMds;
    case kTable:
      return model::Format::kCsv;
    default:
      return model::Format::kJsonl;
  }
}

inline model::Source foreign_rows_source(ForeignRows kind, bool tokens) {
  constexpr const char* kUris[] = {"mem:/a.jsonl", "mem:/a.jsonl.gz", "mem:/a.jsonl.zst",
                                   "mem:/a.bin",   "mem:/a.parquet",  "mem:/a.npy",
                                   "mem:/a.mds",   "mem:/a.json",     "mem:/a.csv"};
  model::Source source;
  source.name = "web";
  source.format = foreign_format(kind);
  source.files = {kUris[kind]};
  if (!model::is_bare_tokens(source.format)) {
    (tokens ? source.token_column : source.text_column) = tokens ? "tokens" : "text";
  }
  if (kind == kBareTokens) {
    source.raw = {model::Element::kU16,
                  tokens ? model::DocumentCut::kEnd : model::DocumentCut::kLength, 9};
  }
  if (kind == kMds && !tokens) {
    source.metadata_columns = {"n"};
    source.media = {{"image", {"image"}}, {"images", {"images"}, {}, true}};
  }
  if (kind == kArray || kind == kTable) {
    source.media = {{"sound", {"path"}, std::nullopt, kind == kArray, "", "from", "to"}};
  }
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
    if (kind == kTable && tokens) continue;
    const model::Source source = foreign_rows_source(kind, tokens);
    runtime::MemoryStorage storage;
    storage.put(source.files.front(), kind == kMegatron ? std::string(64, '\1') : bytes);
    if (kind == kMegatron) storage.put("mem:/a.idx", bytes);
    storage.put("mem:/x.wav", "RIFF");
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
      const BlockRequest all{block, {}, nullptr};
      static_cast<void>(read_media(storage, (*index)->manifest(), **reader, all).ok());
    }
  }
}

}  // namespace overlord::columnar
