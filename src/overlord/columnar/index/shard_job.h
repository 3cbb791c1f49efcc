// ShardJob: what a format gets in order to index one shard, and the reading it does it with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "overlord/base/status.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/source_index.h"
#include "overlord/columnar/media_files.h"
#include "overlord/model/source.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

struct ShardJob {
  runtime::Storage* storage = nullptr;
  const model::Source* source = nullptr;
  const IndexOptions* options = nullptr;
  IndexProgress* progress = nullptr;  // never null here
  const runtime::CancelToken* cancel = nullptr;
  runtime::FileInfo file;              // the shard as it is now
  runtime::FileInfo companion;         // Megatron: the .idx
  const TarRoots* tars = nullptr;      // of media that rows name; never null here
  mutable uint64_t scanned_bytes = 0;  // of the file, told to `progress` so far
  // True once an earlier shard has failed: what comes of this one no longer matters.
  std::function<bool()> abandoned;

  // kCancelled once the caller asked to stop.
  Status check_cancelled() const;
  // The range of `which` (file or companion), which must still be what it was.
  Result<runtime::Bytes> read(const runtime::FileInfo& which, uint64_t offset,
                              uint64_t size_bytes) const;
  void note_scanned(uint64_t size_bytes) const;
  // "source 'web', shard '/data/a.jsonl': <what>"
  Status error(std::string_view what, Code code = Code::kBadData) const;
  std::string reason(uint64_t row, std::string_view what) const;
};

// Companion files by format: the .idx of a .bin; else the empty string.
std::string companion_uri(const model::Source& source, const std::string& uri);

}  // namespace overlord::columnar
