#include "overlord/columnar/formats/csv/csv_rows.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "overlord/columnar/formats/csv/csv_text.h"
#include "overlord/columnar/metadata_value.h"
#include "overlord/columnar/schema_text.h"
#include "overlord/columnar/text_rules.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

using runtime::quote;

// A cell of a metadata column; empty ones count as 0.
std::optional<uint32_t> metadata_of(std::string_view cell) {
  if (cell.empty()) return 0;
  for (const std::string_view yes : {"true", "True", "TRUE"}) {
    if (cell == yes) return 1;
  }
  for (const std::string_view no : {"false", "False", "FALSE"}) {
    if (cell == no) return 0;
  }
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size()) return std::nullopt;
  return value;
}

}  // namespace

CsvRows::CsvRows(const model::Source& source, CsvColumns columns, char delimiter, bool named_media,
                 RowNamer name)
    : source_(source),
      columns_(std::move(columns)),
      delimiter_(delimiter),
      named_media_(named_media),
      name_(std::move(name)) {
  out_.is_text = true;
  out_.columns.resize(columns_.metadata.size());
  out_.columns_seen = ~uint64_t{0};
}

void CsvRows::add(std::string_view record) {
  std::string& bytes = out_.text.rows.bytes;
  const size_t before = bytes.size();
  values_.assign(columns_.metadata.size(), 0);
  const std::string fault = parse(record);
  if (!fault.empty()) {
    bytes.resize(before);
    values_.assign(columns_.metadata.size(), 0);
    const auto row = static_cast<uint32_t>(out_.text.rows.ends.size());
    out_.text.bad.push_back({row, name_(row, fault)});
  }
  out_.text.rows.ends.push_back(bytes.size());
  for (size_t i = 0; i < values_.size(); ++i) out_.columns[i].push_back(values_[i]);
  if (named_media_) out_.named.push_back(fault.empty() ? take_media() : NamedMedia());
}

std::string CsvRows::parse(std::string_view record) {
  if (!is_valid_utf8(record)) return "is not valid UTF-8";
  std::string fault = split_csv(record, delimiter_, &fields_);
  if (!fault.empty()) return fault;
  if (fields_.size() != columns_.count) {
    return "has " + std::to_string(fields_.size()) + " fields, its header has " +
           std::to_string(columns_.count);
  }
  fault = take_metadata();
  if (!fault.empty()) return fault;
  return source_.schema.declared() ? take_record() : take_text();
}

std::string CsvRows::take_text() {
  const std::string& text = fields_[columns_.text.front()];
  if (is_blank(text)) return empty_row("empty text in column " + quote(source_.text_column));
  if (std::string fault = fault_of_size(text.size(), source_.limits); !fault.empty()) return fault;
  out_.text.rows.bytes += text;
  return {};
}

// Columns of a conversation: texts, or lists as JSON.
std::string CsvRows::take_record() {
  std::string& out = out_.text.rows.bytes;
  const size_t begin = out.size();
  for (size_t i = 0; i < columns_.text.size(); ++i) {
    if (columns_.text[i] == CsvColumns::kAbsent) continue;
    out.push_back(out.size() == begin ? '{' : ',');
    append_json_string(source_.schema.columns[i], &out);
    out.push_back(':');
    append_json_string(fields_[columns_.text[i]], &out);
  }
  out.push_back('}');
  return fault_of_size(out.size() - begin, source_.limits);
}

std::string CsvRows::take_metadata() {
  for (size_t i = 0; i < values_.size(); ++i) {
    const std::string& cell = fields_[columns_.metadata[i]];
    const std::optional<uint32_t> value = metadata_of(cell);
    if (!value) return metadata_fault(source_.metadata_columns[i], quote(cell, 60));
    values_[i] = *value;
  }
  return {};
}

std::string CsvRows::take_part_of(size_t field, BlobPart* part) const {
  std::optional<double> seconds[2];
  for (size_t which = 0; which < 2; ++which) {
    const uint32_t column = columns_.parts[2 * field + which];
    if (column == CsvColumns::kAbsent || fields_[column].empty()) continue;
    const std::string& cell = fields_[column];
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size()) {
      return "media " + quote(source_.media[field].name) + ": " + quote(cell, 60) +
             " is no number of seconds";
    }
    seconds[which] = value;
  }
  return take_part(source_.media[field], seconds[0], seconds[1], part);
}

// Of each field the first of its columns that is not empty.
NamedMedia CsvRows::take_media() const {
  NamedMedia media;
  for (size_t field = 0; field < columns_.media.size(); ++field) {
    const std::string fault = take_part_of(field, &media.parts.emplace_back());
    if (!fault.empty()) return {{}, {}, fault};
    const std::vector<uint32_t>& columns = columns_.media[field];
    std::vector<std::string>& paths = media.paths.emplace_back();
    for (const uint32_t column : columns) {
      if (column == CsvColumns::kAbsent || fields_[column].empty()) continue;
      paths.push_back(fields_[column]);
      break;
    }
  }
  return media;
}

}  // namespace overlord::columnar
