#include "overlord/columnar/metadata_columns.h"

#include <arrow/array.h>

#include <algorithm>
#include <string>
#include <utility>

#include "overlord/columnar/metadata_value.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using Faults = std::vector<std::pair<uint64_t, std::string>>;

template <typename ArrayType>
void take_numbers(const arrow::Array& array, const std::string& name, uint64_t row,
                  std::vector<uint32_t>* out, Faults* faults) {
  const auto& numbers = static_cast<const ArrayType&>(array);
  for (int64_t i = 0; i < numbers.length(); ++i) {
    const auto value = numbers.IsNull(i) ? 0 : numbers.Value(i);
    if (std::in_range<uint32_t>(value)) {
      out->push_back(static_cast<uint32_t>(value));
      continue;
    }
    out->push_back(0);
    faults->emplace_back(row + static_cast<uint64_t>(i),
                         metadata_fault(name, std::to_string(value)));
  }
}

void take_flags(const arrow::Array& array, std::vector<uint32_t>* out) {
  const auto& flags = static_cast<const arrow::BooleanArray&>(array);
  for (int64_t i = 0; i < flags.length(); ++i) {
    out->push_back(!flags.IsNull(i) && flags.Value(i) ? 1 : 0);
  }
}

// False: a type that check_metadata_type() does not let through.
bool take_chunk(const arrow::Array& array, const std::string& name, uint64_t row,
                std::vector<uint32_t>* out, Faults* faults) {
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      take_flags(array, out);
      return true;
    case arrow::Type::INT8:
      take_numbers<arrow::Int8Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::UINT8:
      take_numbers<arrow::UInt8Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::INT16:
      take_numbers<arrow::Int16Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::UINT16:
      take_numbers<arrow::UInt16Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::INT32:
      take_numbers<arrow::Int32Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::UINT32:
      take_numbers<arrow::UInt32Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::INT64:
      take_numbers<arrow::Int64Array>(array, name, row, out, faults);
      return true;
    case arrow::Type::UINT64:
      take_numbers<arrow::UInt64Array>(array, name, row, out, faults);
      return true;
    default:
      return false;
  }
}

}  // namespace

Status add_metadata_rows(const ShardJob& job, const arrow::Table& table, uint64_t first_row,
                         ShardPart* part) {
  const std::vector<std::string>& names = job.source->metadata_columns;
  Faults faults;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto column = table.GetColumnByName(names[i]);
    if (column == nullptr)
      return job.error("lacks the metadata column " + runtime::quote(names[i]));
    uint64_t row = first_row;
    for (const auto& chunk : column->chunks()) {
      if (!take_chunk(*chunk, names[i], row, &part->columns[i], &faults)) {
        return job.error("metadata column " + runtime::quote(names[i]) + " is " +
                         chunk->type()->ToString());
      }
      row += static_cast<uint64_t>(chunk->length());
    }
  }
  std::stable_sort(faults.begin(), faults.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [row, what] : faults) {
    if (!part->bad.empty() && part->bad.back().first == row) continue;  // one reason is enough
    part->bad.emplace_back(row, job.reason(row, what));
    for (std::vector<uint32_t>& values : part->columns) values[row] = 0;
  }
  return {};
}

}  // namespace overlord::columnar
