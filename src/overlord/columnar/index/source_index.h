// SourceIndex: the mapped index file of one source, and how it is built.
// Layout and versions: docs/reference/formats.md. Immutable once written (temp file, fsync,
// rename).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/media.h"
#include "overlord/model/manifest.h"
#include "overlord/model/source.h"
#include "overlord/runtime/seams.h"

namespace overlord::columnar {

class IndexFile;
struct BranchedRows;

class SourceIndex {
 public:
  // Maps the file, checks magic, version, CRC of the header and that it was made for `source`
  // (format, columns, tokenizer digest when it holds lengths).
  static Result<std::shared_ptr<const SourceIndex>> open(const std::string& path,
                                                         const model::Source& source);
  // The same over bytes in memory (build_index_bytes), for simulators and tests.
  static Result<std::shared_ptr<const SourceIndex>> from_bytes(std::string bytes,
                                                               const model::Source& source);

  const model::SourceManifest& manifest() const { return manifest_; }
  // Rows found bad while indexing, with their reasons (global row number, reason).
  std::vector<std::pair<uint64_t, std::string>> bad_rows() const;
  // Compare every shard with the store now: kSourceChanged naming the first that differs and how
  // (vanished, grew, shrank, replaced), or files that the source lists now and the index has not.
  Status verify(runtime::Storage& storage) const;
  Result<std::unique_ptr<BlockReader>> reader() const;
  uint64_t mapped_bytes() const;
  // The blobs of Source::media[field], row after row: where those of each row end, ...
  std::span<const uint64_t> media_ends(size_t field) const;
  // ... their sizes ...
  std::span<const uint32_t> media_sizes(size_t field) const { return media_values(field, 0); }
  // ... and, from 1 on, what the probe found (as many as media_values_per_blob() says).
  std::span<const uint32_t> media_values(size_t field, size_t which) const;
  uint32_t media_values_per_blob() const;

 private:
  SourceIndex(std::shared_ptr<const IndexFile> file, const model::Source& source);
  void show_branches();
  static Result<std::shared_ptr<const SourceIndex>> from_file(std::shared_ptr<const IndexFile> file,
                                                              const model::Source& source,
                                                              const std::string& name);

  std::shared_ptr<const IndexFile> file_;
  std::shared_ptr<const BranchedRows> branched_;  // null: rows are those of the files
  model::Source source_;
  model::SourceManifest manifest_;
};

struct IndexOptions {
  bool lengths = false;  // token counts (decodes or tokenises every row)
  uint32_t threads = 2;
  uint32_t block_rows = 1024;      // JSONL and Megatron: most rows of a block
  uint64_t block_bytes = 1 << 20;  // ... and about this many bytes
  // Looks at the first bytes of every blob of Source::media; null: only sizes are kept.
  std::shared_ptr<const MediaProbe> probe = nullptr;
};

struct IndexProgress {  // shared with a watcher; monotonic; may be null
  std::atomic<uint64_t> shards_total{0}, shards_done{0}, bytes_total{0}, bytes_done{0}, rows{0};
};

// Build or refresh the index at `path`: shards whose fingerprint is unchanged are taken over from
// the old file or, where there is none, from `others`, index files of the same source. An index
// with lengths that somebody else has put there meanwhile stays, if it is of the same files and
// this one has none. `encoder` may be null unless lengths of text are asked for. The outcome
// depends on the files, the source and the options only: not on threads, nor on what was taken
// over.
Status build_index(runtime::Storage& storage, runtime::TextEncoder* encoder,
                   const model::Source& source, const std::string& path,
                   const std::vector<std::string>& others, const IndexOptions& options,
                   IndexProgress* progress, const runtime::CancelToken& cancel);

// The same without a file: the bytes of a new index.
Result<std::string> build_index_bytes(runtime::Storage& storage, runtime::TextEncoder* encoder,
                                      const model::Source& source, const IndexOptions& options,
                                      IndexProgress* progress, const runtime::CancelToken& cancel);

}  // namespace overlord::columnar
