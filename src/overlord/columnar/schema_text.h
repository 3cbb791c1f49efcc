// The text of rows that have a schema (model/row_schema.h), whatever format they are read from:
// JSON in one canonical form, so that a row is the same text out of a Parquet file and out of a
// line, and interleaved texts joined with their marker. Faults are reasons of a bad row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "overlord/model/source.h"

namespace overlord::columnar {

// Values inside each other, in one record; readers of JSON elsewhere recurse.
inline constexpr size_t kMaxRecordDepth = 64;

// `text` is valid UTF-8.
void append_json_string(std::string_view text, std::string* out);
// The shortest form that reads back as the same number; false: JSON has none for it.
bool append_json_number(double value, std::string* out);

// Joins the places of one interleaved row.
class Interleaver {
 public:
  // Appends to `out`, which outlives it.
  Interleaver(const model::Source& source, std::string* out)
      : schema_(source.schema), begin_(out->size()), out_(out) {}

  // The next place: exactly one of the two is there. What is wrong, or empty.
  std::string add(const std::string_view* text, bool image);
  // Once all were added. What is wrong, or empty.
  std::string finish(const model::SourceLimits& limits) const;

 private:
  const model::RowSchema& schema_;
  const size_t begin_;
  std::string* const out_;
  uint64_t places_ = 0;
};

// Why a row's text of `size` bytes cannot be used, or empty.
std::string fault_of_size(size_t size, const model::SourceLimits& limits);
// Why two lists of an interleaved row do not go together.
std::string uneven_lists(const model::Source& source, uint64_t texts, uint64_t images);

}  // namespace overlord::columnar
