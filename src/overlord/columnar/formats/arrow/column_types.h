// Which types of Arrow columns rows are made of, and how a column of another type is refused.
// Shared by the formats that Arrow reads.
#pragma once

#include <arrow/type.h>

#include <string>

#include "overlord/base/status.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {

bool is_bytes(const arrow::DataType& type);  // binary or string, of 32 or 64 bit offsets
bool is_large(const arrow::DataType& type);  // one of those with 64 bits
bool is_list(const arrow::DataType& type);   // of lists; of a fixed size above 0 too

// kInvalidArgument where the column cannot be what the source says it is: text, tokens or a mask
// by its name, or a metadata column.
Status check_row_type(const ShardJob& job, const arrow::Field& field);
Status check_metadata_type(const ShardJob& job, const arrow::Field& field);

// Name, type and nullability, independent of the names that writers give to list items.
std::string describe_column(const arrow::Field& field);

// Whether the column or a part of it has a type that only its own code can read.
bool has_extension(const arrow::Field& field);

}  // namespace overlord::columnar
