// Records of CSV to rows of text, metadata values and paths of media.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/formats/csv/csv_columns.h"
#include "overlord/columnar/token_checks.h"
#include "overlord/model/source.h"

namespace overlord::columnar {

class CsvRows {
 public:
  CsvRows(const model::Source& source, CsvColumns columns, char delimiter, bool named_media,
          RowNamer name);

  void add(std::string_view record);
  RowBlock take() { return std::move(out_); }

 private:
  std::string parse(std::string_view record);  // what is wrong, or empty
  std::string take_text();                     // ditto, and below
  std::string take_record();
  std::string take_metadata();
  NamedMedia take_media() const;
  std::string take_part_of(size_t field, BlobPart* part) const;

  const model::Source& source_;
  const CsvColumns columns_;
  const char delimiter_;
  const bool named_media_;
  const RowNamer name_;
  std::vector<std::string> fields_;  // of the record in hand
  std::vector<uint32_t> values_;     // ditto, of the metadata columns
  RowBlock out_;
};

}  // namespace overlord::columnar
