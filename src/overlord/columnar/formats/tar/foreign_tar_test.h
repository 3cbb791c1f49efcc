// Any bytes as a tar shard: it is indexed, and every text and blob the index knows is read. Shared
// by the fuzz target and by its smoke run among the tests.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "overlord/base/check.h"
#include "overlord/columnar/formats/tar/tar_scan.h"
#include "overlord/columnar/reading_test.h"

namespace overlord::columnar {

inline model::Source tar_source(const std::string& uri, bool many = false) {
  model::Source source;
  source.name = "pairs";
  source.format = model::Format::kWebdataset;
  source.files = {uri};
  source.text_column = "txt";
  source.media = {{"image", {"jpg", "png"}, std::nullopt, many}};
  source.tokenizer.kind = model::TokenizerKind::kBytes;
  source.tokenizer.digest = "bytes";
  source.vocabulary = 256;
  return source;
}

// The same members however the bytes are cut: what the scanner sees does not depend on pieces.
inline std::string scan_in_pieces(std::string_view bytes, size_t piece) {
  std::string seen;
  TarScanner scanner(8, [&](const TarMember& member) -> Status {
    seen += member.name + "@" + std::to_string(member.begin) + "," + std::to_string(member.offset) +
            "+" + std::to_string(member.size_bytes) + ":" + std::string(member.head) + ";";
    return {};
  });
  Status status;
  for (size_t at = 0; at < bytes.size() && status.ok(); at += piece) {
    status = scanner.add(bytes.substr(at, piece), at);
  }
  if (status.ok()) status = scanner.finish(bytes.size());
  return seen + (status.ok() ? "ok" : "refused");
}

// Aborts on anything but rows or a Status.
inline void takes_tar(std::string_view bytes) {
  OVERLORD_CHECK(scan_in_pieces(bytes, 512) == scan_in_pieces(bytes, 1 << 20),
                 "pieces change what a tar holds");
  size_t turn = 0;
  for (const char* uri : {"mem:/a.tar", "mem:/a.tar.gz", "mem:/a.tar.zst", "mem:/b.tar"}) {
    runtime::MemoryStorage storage;
    storage.put(uri, std::string(bytes));
    const auto index = build(storage, tar_source(uri, turn++ > 1));
    if (!index.ok()) continue;
    const auto reader = (*index)->reader();
    OVERLORD_CHECK(reader.ok(), "a fresh index has a reader");
    for (uint32_t block = 0; block < (*index)->manifest().blocks.size(); ++block) {
      const BlockRequest request{block, {}, nullptr};
      OVERLORD_CHECK(read_block(storage, **index, **reader, request).ok(), "indexed text");
      const auto blobs = read_media(storage, (*index)->manifest(), **reader, request);
      OVERLORD_CHECK(blobs.ok(), "indexed media");
    }
  }
}

}  // namespace overlord::columnar
