// Any bytes as an index file: it is opened, and every text and blob it promises is read from the
// shards it was made of. Shared by the fuzz target and by its smoke run among the tests.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "overlord/columnar/formats/tar/foreign_tar_test.h"
#include "overlord/columnar/formats/tar/tar_writer_test.h"
#include "overlord/columnar/index/index_layout.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {

// Sources and the shards that lie in one store.
struct IndexedWorld {
  runtime::MemoryStorage storage;
  std::vector<model::Source> sources;
  std::vector<std::string> indexes;  // good ones

  IndexedWorld() {
    TarWriter tar;
    for (int row = 0; row < 30; ++row) {
      const std::string key = "s" + std::to_string(1000 + row);
      tar.add(key + ".txt", "row " + std::to_string(row));
      if (row % 3 != 0) tar.add(key + ".jpg", std::string(40 + row % 7, 'j'));
      if (row % 4 == 1) tar.add(key + ".png", std::string(9, 'p'));
    }
    storage.put("mem:/a.tar", tar.bytes + std::string(1024, '\0'));
    sources = {tar_source("mem:/a.tar"), tar_source("mem:/a.tar", true)};
    const testing::CorpusSpec spec{.directory = "mem:/c", .shards = 2, .documents = 20};
    const testing::Files files = testing::jsonl_token_corpus(spec);
    put_all(files, &storage);
    model::Source lines;
    lines.name = "web";
    lines.format = model::Format::kJsonl;
    lines.files = testing::shard_uris(files);
    lines.token_column = "tokens";
    lines.vocabulary = spec.vocabulary;
    lines.limits.max_document_bytes = 700;  // some bad rows too
    sources.push_back(lines);
    IndexOptions options;
    options.block_rows = 10;
    for (const model::Source& source : sources) {
      indexes.push_back(build_index_bytes(storage, nullptr, source, options, nullptr, {}).value());
    }
  }
};

// Hashes made to fit, so that the checks behind them are reached.
inline void repair_hashes(std::string* bytes) {
  const auto number = [&](size_t at, size_t count) {
    uint64_t value = 0;
    std::memcpy(&value, bytes->data() + at, count);
    return value;
  };
  const auto put = [&](size_t at, uint64_t value) { std::memcpy(bytes->data() + at, &value, 8); };
  if (bytes->size() < 12) return;
  const uint64_t version = number(8, 4);
  if (version < kPlainIndexVersion || version > kMediaIndexVersion) return;
  const size_t header = layout::header_bytes(static_cast<uint32_t>(version));
  if (bytes->size() < header) return;
  for (size_t section = 0; section < layout::section_count(static_cast<uint32_t>(version));
       ++section) {
    const size_t at = 44 + section * 28;
    const uint64_t offset = number(at + 4, 8);
    const uint64_t size = number(at + 12, 8);
    if (offset > bytes->size() || size > bytes->size() - offset) continue;
    put(at + 20, hash64(bytes->data() + offset, size));
  }
  put(header - 8, hash64(bytes->data(), header - 8));
}

// The first byte chooses the source. Aborts on anything but rows or a Status.
inline void takes_index(std::string_view input) {
  static IndexedWorld* const world = new IndexedWorld;
  if (input.empty()) return;
  const model::Source& source =
      world->sources[static_cast<uint8_t>(input[0]) % world->sources.size()];
  std::string bytes(input.substr(1));
  repair_hashes(&bytes);
  const auto index = SourceIndex::from_bytes(std::move(bytes), source);
  if (!index.ok()) {
    OVERLORD_CHECK(!index.status().message().empty(), "a refusal without a reason");
    return;
  }
  (*index)->bad_rows();
  const auto reader = (*index)->reader();
  if (!reader.ok()) return;
  for (uint32_t block = 0; block < (*index)->manifest().blocks.size(); ++block) {
    const BlockRequest request{block, {}, nullptr};
    static_cast<void>(read_block(world->storage, **index, **reader, request).ok());
    static_cast<void>(read_block(world->storage, **index, **reader, {block, {0}, nullptr}).ok());
    static_cast<void>(read_media(world->storage, (*index)->manifest(), **reader, request).ok());
  }
}

}  // namespace overlord::columnar
