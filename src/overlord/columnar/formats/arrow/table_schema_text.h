// The text of rows with a schema (schema_text.h) out of the nested columns of a row group or record
// batch.
#pragma once

#include <arrow/table.h>
#include <arrow/type.h>

#include <memory>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/columnar/token_checks.h"
#include "overlord/model/source.h"

namespace overlord::columnar {

// kInvalidArgument when a column of the schema is of a type that it cannot have.
Status check_schema_type(const ShardJob& job, const arrow::Field& field);

// The same type with all its strings as plain bytes, which is how its rows are read: broken UTF-8
// is one bad row and not the end of its block.
std::shared_ptr<arrow::DataType> without_strings(const std::shared_ptr<arrow::DataType>& type);

// `table` is validated, its strings are plain bytes; kBadData when it is not what was indexed.
Result<TextBlock> schema_rows(const arrow::Table& table, const model::Source& source,
                              const RowNamer& name);

}  // namespace overlord::columnar
