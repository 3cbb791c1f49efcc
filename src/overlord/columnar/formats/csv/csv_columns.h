// Which columns of a CSV file a source reads: names of its header as numbers, kept with every block
// (RecordBlocks::set_head), so that files of one source may have them in any order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/model/source.h"

namespace overlord::columnar {

struct CsvColumns {
  static constexpr uint32_t kAbsent = 0xffffffffu;

  uint32_t count = 0;                        // of the header
  std::vector<uint32_t> text;                // the text column, or those of the schema
  std::vector<std::vector<uint32_t>> media;  // per field, of each of its names
  std::vector<uint32_t> parts;               // per field where a part of it begins, where it ends
  std::vector<uint32_t> metadata;

  // kInvalidArgument: the header lacks a column, or has it twice.
  static Result<CsvColumns> find(const std::vector<std::string>& header,
                                 const model::Source& source);
  std::string head() const;
  // False: not what head() gave for a source with so many columns. A source that reads less (no
  // metadata) finds the others.
  bool read(std::string_view head, const model::Source& source);
};

}  // namespace overlord::columnar
