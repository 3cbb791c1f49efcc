// Lines of JSON to rows. The whole line is parsed and checked, not only the wanted fields: whether
// a row is good must not depend on where in the line its fault is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/token_checks.h"
#include "overlord/model/source.h"

namespace overlord::columnar {

// Bytes that must be readable behind a line that is parsed where it lies.
inline constexpr size_t kLinePadding = 64;

class JsonRowParser {
 public:
  // `named_media`: what rows say of their media is wanted too.
  JsonRowParser(const model::Source& source, bool named_media, RowNamer name);
  ~JsonRowParser();

  // Takes all memory that parsing needs, so that a lack of it never looks like a bad row.
  Status prepare(size_t longest_line);
  // Token sources: where ids (int32) and mask bytes are collected, with room for every number that
  // the block can hold.
  void use_buffers(const runtime::Buffer& tokens, const runtime::Buffer& mask);
  // One row; `padded`: kLinePadding bytes behind it may be read.
  void add(std::string_view line, bool padded);
  uint32_t rows() const { return rows_; }
  RowBlock take();

 private:
  struct Parser;  // simdjson stays out of this header

  std::string parse(std::string_view line, bool padded);  // what is wrong, or empty
  std::string take_text(const void* element);
  std::string take_schema_text(const void* object);
  std::string take_metadata(const void* object);
  NamedMedia take_media(const void* object) const;
  std::string take_tokens(const void* tokens, const void* mask);
  void refuse(std::string_view what);

  const model::Source& source_;
  const bool named_media_;
  const RowNamer name_;
  std::unique_ptr<Parser> parser_;
  uint32_t rows_ = 0;
  RowBlock out_;
  runtime::Buffer token_buffer_;
  runtime::Buffer mask_buffer_;
  uint64_t token_count_ = 0;
  std::vector<uint32_t> metadata_;  // of the row in hand, by column
  NamedMedia media_;                // ditto
};

}  // namespace overlord::columnar
