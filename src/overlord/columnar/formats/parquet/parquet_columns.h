// Metadata columns of a Parquet shard, read row group by row group when it is indexed. Only their
// column chunks are read; text and tokens stay where they are.
#pragma once

#include <parquet/metadata.h>

#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/formats/parquet/parquet_schema.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/columnar/media.h"

namespace overlord::columnar {

// Appends the values of one row group to `part->columns`, and rows with a value that is none to
// `part->bad`. `projection` is of the metadata columns; `ranges` are their chunks. Row numbers of
// the group begin at `first_row`. Parquet's exceptions are the caller's to catch.
Status add_group_columns(const ShardJob& job, const parquet::FileMetaData& metadata, int group,
                         const Projection& projection, const std::vector<RangeRequest>& ranges,
                         uint64_t first_row, ShardPart* part);

// Reads the media columns of one row group, which decode to `decoded_bytes`, and notes them
// (media_columns.h). `projection` and `ranges` are of the media columns.
Status add_group_media(const ShardJob& job, const parquet::FileMetaData& metadata, int group,
                       const Projection& projection, const std::vector<RangeRequest>& ranges,
                       uint64_t decoded_bytes, uint64_t first_row, MediaNotes* notes,
                       ShardPart* part, ByteWriter* extra);

}  // namespace overlord::columnar
