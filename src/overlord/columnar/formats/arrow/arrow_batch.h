// The wanted columns of an Arrow shard and one record batch of them: which stretches of the shard
// hold them, and their table out of those stretches alone. Arrow's library decodes.
#pragma once

#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <arrow/table.h>
#include <arrow/type.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/formats/arrow/arrow_dictionaries.h"
#include "overlord/columnar/formats/arrow/arrow_messages.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/columnar/streams/block_ranges.h"

namespace overlord::columnar {

// Names of the columns that a source wants: text or tokens and mask, or those of its schema that
// the shard has; media.
std::vector<std::string> row_column_names(const model::Source& source, const arrow::Schema& schema);

// Columns of a shard by name, in the shard's order. Text is read as plain bytes, so that one row of
// broken UTF-8 is one bad row and not the end of its batch.
struct ArrowColumns {
  std::shared_ptr<arrow::Schema> schema;  // of the whole shard
  std::vector<int> fields;                // of it, ascending
  // What rows are made of where that is not how a column is stored, by `fields`; null: it is.
  std::vector<std::shared_ptr<arrow::DataType>> plain;
  // Of the values of a dictionary, by `fields`; null: none. Their columns have the type of their
  // indices in `schema`.
  std::vector<std::shared_ptr<arrow::DataType>> values;
  // Of them, a column of interleaved images that is read for its rows: of an image only one thing
  // is wanted then, whether it is there, so its bytes are left where they are.
  std::optional<int> images = std::nullopt;
};
ArrowColumns find_columns(const std::shared_ptr<arrow::Schema>& schema,
                          const std::vector<std::string>& names, const model::Source& source);

// kNotFound when a column is missing, kInvalidArgument when it is of a type we do not take.
using FieldCheck = std::function<Status(const ShardJob& job, const arrow::Field& field)>;
Status check_columns(const ShardJob& job, const arrow::Schema& schema,
                     const std::vector<std::string>& names, const FieldCheck& check,
                     std::string* description);

// What the index keeps of a shard: a description to compare shards by, and the schema.
std::string keep_schema(const std::string& description, const arrow::Schema& schema);
std::string_view kept_description(std::string_view shard_extra);
// Null: not what was kept.
std::shared_ptr<arrow::Schema> kept_schema(std::string_view shard_extra);

// The columns of one batch: where they are, and how many bytes they take decoded.
struct BatchPlaces {
  std::vector<RangeRequest> ranges;  // of shard 0: the header and the columns
  std::string metadata;              // BlockRanges::metadata
  uint64_t decoded_bytes = 0;
};
// `dictionaries`: of the columns that have one, in their order.
Result<BatchPlaces> batch_places(const ShardJob& job, const ArrowColumns& columns,
                                 const BatchMessage& batch,
                                 const std::vector<std::vector<DictionaryPlace>>& dictionaries);

// Decodes a batch out of `pieces`, which answer the ranges one to one, and validates it in full.
// Buffers that are not compressed are views of the pieces, but for columns that are made plain.
arrow::Result<std::shared_ptr<arrow::Table>> read_batch(const ArrowColumns& columns,
                                                        const BlockRanges& block,
                                                        const std::vector<runtime::Bytes>& pieces,
                                                        uint64_t shard_bytes,
                                                        arrow::MemoryPool* memory);

}  // namespace overlord::columnar
