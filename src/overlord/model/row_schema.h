// RowSchema: how the text of a row is made where it is not one column: chat rows, whose columns
// become one JSON record that the tokenizer's worker renders, and interleaved rows, whose texts are
// joined with a marker in place of every image. A value; columnar/ makes the text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "overlord/base/fields.h"

namespace overlord::model {

enum class RowText : uint8_t { kColumn, kRecord, kInterleaved };

struct RowSchema {
  RowText text = RowText::kColumn;
  // kRecord: the columns of the record. kInterleaved: texts and images. The first one is the
  // source's text column.
  std::vector<std::string> columns;
  uint32_t required = 0;  // the first so many have a value in every good row ...
  uint32_t expected = 0;  // ... and so many are in the schema of files that have one
  std::string marker;     // kInterleaved: stands for an image
  std::string separator;  // kInterleaved: between two places of a row
  bool masked = false;    // the tokenizer says which of a row's tokens carry loss
  // kRecord: a row of a file is so many rows of the source, which stay together; the first so many
  // columns are theirs.
  uint32_t branches = 1;

  bool declared() const { return text != RowText::kColumn; }
  friend bool operator==(const RowSchema&, const RowSchema&) = default;

  OVERLORD_FIELDS(text, columns, required, expected, marker, separator, masked, branches)
};

}  // namespace overlord::model
