// A shard of MDS: a table of offsets, a description of the columns as JSON, samples. A sample is
// the sizes of those columns that have none of their own, then the values of all, in their order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/status.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/model/source.h"
#include "overlord/runtime/buffer.h"

namespace overlord::columnar {

struct MdsColumn {
  std::string name;
  std::string encoding;     // "str", "ndarray:int32", "jpeg"
  uint32_t size_bytes = 0;  // of every value; 0: each sample says it
};

struct MdsSpan {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

// The columns of a shard, and which of them a source wants.
struct MdsColumns {
  std::vector<MdsColumn> all;
  std::vector<size_t> rows;      // text, tokens, mask, or those of a schema that are there
  std::vector<size_t> metadata;  // by Source::metadata_columns
  std::vector<size_t> media;     // by Source::media

  uint64_t sizes_bytes() const;  // what a sample says before its values
  // Where every column lies in a sample, which begins with `sizes`. What is wrong, or empty.
  std::string cut(std::string_view sizes, uint64_t sample_bytes, std::vector<MdsSpan>* out) const;
};

// The text of a shard, decompressed where it is compressed: then all of it is held.
class MdsText {
 public:
  explicit MdsText(const ShardJob& job) : job_(job) {}
  Status open();
  uint64_t size_bytes() const { return size_bytes_; }
  bool is_whole() const { return whole_; }
  // Valid until the next call.
  Result<std::string_view> at(uint64_t offset, uint64_t size_bytes);

 private:
  const ShardJob& job_;
  uint64_t size_bytes_ = 0;
  bool whole_ = false;
  std::string text_;  // when whole
  uint64_t window_at_ = 0;
  runtime::Bytes window_;
};

struct MdsHead {
  MdsColumns columns;
  std::vector<uint32_t> offsets;  // of the samples, and the end of the last
  uint64_t scanned = 0;           // hash of all of it
};

// Checked: offsets ascend and end where the shard does, and the source's columns are there and of
// encodings that it can use.
Result<MdsHead> read_mds_head(const ShardJob& job, MdsText* text);

// What an index keeps of a shard's columns: a description of the wanted ones, in which all shards
// agree, then all.
std::string keep_mds_columns(const MdsColumns& columns);
// False: not what was kept, or without a column that the source wants.
bool kept_mds_columns(std::string_view shard_extra, const model::Source& source, MdsColumns* out);

}  // namespace overlord::columnar
