// From the members of a sample to a row of text and its metadata values; also from the columns of
// other formats that hold text or JSON.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/formats/tar/tar_reader.h"
#include "overlord/columnar/token_checks.h"

namespace overlord::columnar {

class SampleRows {
 public:
  // `place`: what the text lies in, for messages ("member .txt").
  SampleRows(const model::Source& source, RowNamer name, std::string place);
  ~SampleRows();

  // Takes all memory that parsing needs, so that a lack of it never looks like a bad row.
  Status prepare(size_t longest_member);
  // A row; `metadata` is its json member, or nothing.
  void add(std::string_view text, std::string_view metadata, bool has_metadata);
  // A row that indexing found bad already.
  void add_bad(std::string reason);
  RowBlock take() { return std::move(out_); }

 private:
  struct Parser;  // simdjson stays out of this header

  std::string take_text(std::string_view member);         // what is wrong, or empty
  std::string take_schema_text(std::string_view member);  // ditto
  std::string take_metadata(std::string_view member);     // ditto

  const model::Source& source_;
  const RowNamer name_;
  const TextMember text_;
  const std::string place_;
  std::unique_ptr<Parser> parser_;
  std::vector<uint32_t> values_;  // of the row in hand, by metadata column
  RowBlock out_;
};

}  // namespace overlord::columnar
