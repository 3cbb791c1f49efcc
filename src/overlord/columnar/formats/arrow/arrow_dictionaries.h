// Columns that are not stored as rows are made of: dictionary encoded ones, whose values are
// messages of their own, and views. How a dictionary is found, kept and decoded, and how a column
// becomes a plain one.
#pragma once

#include <arrow/array.h>
#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <arrow/type.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/columnar/formats/arrow/arrow_messages.h"

namespace overlord::columnar {

// Where a message with values of a dictionary lies in its shard.
struct DictionaryPlace {
  uint64_t metadata_offset = 0;
  uint64_t metadata_bytes = 0;
  uint64_t body_offset = 0;
  uint64_t body_bytes = 0;
  BatchHeader header = {};  // while its shard is indexed
};

// The dictionaries as they are at a point of a shard, by id: what was last said, and what was
// added.
class KnownDictionaries {
 public:
  void take(const BatchMessage& message, int64_t id, bool is_delta);
  // Nothing: there was none yet.
  const std::vector<DictionaryPlace>* find(int64_t id) const;

 private:
  std::map<int64_t, std::vector<DictionaryPlace>> places_;
};

void write_dictionary(const std::vector<DictionaryPlace>& places, ByteWriter* out);
// False: not what was written for a shard of `shard_bytes`.
bool read_dictionary(ByteReader* in, uint64_t shard_bytes, std::vector<DictionaryPlace>* out);

// The header of the batch of values inside of a dictionary's message, as the header of a record
// batch of its own; nothing: it is none.
std::optional<std::string> batch_in_dictionary(std::string_view metadata);

// What rows are made of where a column is of this type: the values of a dictionary, strings and
// bytes in place of their views. Of any other type: itself.
std::shared_ptr<arrow::DataType> plain_type(const std::shared_ptr<arrow::DataType>& type);

// A column as one of its plain type. `values` are those of its dictionary, whose indices `column`
// has; null: it has values of its own. Both are validated in full.
arrow::Result<std::shared_ptr<arrow::Array>> plain_column(
    const std::shared_ptr<arrow::Array>& column, const std::shared_ptr<arrow::Array>& values,
    arrow::MemoryPool* memory);

}  // namespace overlord::columnar
