// Which columns of a Parquet file a source needs, whether they are what it says, and the metadata
// of one row group reduced to them. Text columns are declared as plain bytes there, so that one row
// of broken UTF-8 is one bad row and not the end of its row group.
#pragma once

#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <memory>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

// Limits of what a footer may make Arrow allocate: far below Arrow's own (100 MB, 1 M entries).
parquet::ReaderProperties footer_properties();     // whole footers, when indexing
parquet::ReaderProperties row_group_properties();  // our own reduced ones, and page headers

struct Projection {
  std::vector<int> leaves;                            // leaf columns of the file, ascending
  std::shared_ptr<parquet::SchemaDescriptor> schema;  // of those alone
  std::string description;                            // names, types, nullability
};

// kNotFound when a column is missing, kInvalidArgument when it is of a type we do not take.
Result<Projection> project(const ShardJob& job, const parquet::FileMetaData& metadata);

// The same of the metadata columns; no leaves where the source has none.
Result<Projection> project_metadata(const ShardJob& job, const parquet::FileMetaData& metadata);

// The same of the media columns, of which some have two leaves.
Result<Projection> project_media(const ShardJob& job, const parquet::FileMetaData& metadata);

// Serialised metadata of row group `index` with the projected columns only.
std::string reduced_metadata(const parquet::FileMetaData& metadata, int index,
                             const Projection& projection);

}  // namespace overlord::columnar
