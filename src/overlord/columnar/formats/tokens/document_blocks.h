// Documents of bare tokens, one after another in a file, as blocks of contiguous bytes: what the
// index keeps of Megatron's files and of raw ones.
#pragma once

#include <cstdint>
#include <string>

#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/model/element.h"

namespace overlord::columnar {

struct TokenDocument {
  uint64_t offset = 0;  // of its first token, in bytes
  uint64_t tokens = 0;
};

class DocumentBlocks {
 public:
  // Notes the elements in `part`, for the reader.
  DocumentBlocks(const ShardJob& job, model::Element element, ShardPart* part);

  // A document that cannot be used, whatever its tokens are.
  void add_bad(const TokenDocument& document, const std::string& what);
  // The next document; one that begins elsewhere than where the last ended begins a block.
  void add(const TokenDocument& document);

 private:
  bool has_room(uint64_t bytes) const;
  void open_block(uint64_t row, uint64_t offset);
  void extend(uint64_t bytes);
  void bad(uint64_t row, const std::string& what);

  const ShardJob& job_;
  const uint64_t width_;
  ShardPart* const part_;
  uint32_t current_rows_ = 0;
  uint64_t next_offset_ = 0;
};

}  // namespace overlord::columnar
