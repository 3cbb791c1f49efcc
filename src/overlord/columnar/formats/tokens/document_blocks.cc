#include "overlord/columnar/formats/tokens/document_blocks.h"

#include <algorithm>

#include "overlord/columnar/text_rules.h"

namespace overlord::columnar {

DocumentBlocks::DocumentBlocks(const ShardJob& job, model::Element element, ShardPart* part)
    : job_(job), width_(model::element_bytes(element)), part_(part) {
  part_->extra.push_back(static_cast<char>(element));
}

void DocumentBlocks::add(const TokenDocument& document) {
  const uint64_t bytes = document.tokens * width_;
  const uint64_t row = part_->entry.rows++;
  const model::SourceLimits& limits = job_.source->limits;
  if (document.tokens >= model::kBadRow ||
      bytes > std::min(limits.max_document_bytes, limits.max_block_bytes)) {
    --part_->entry.rows;
    return add_bad(document, "document of " + std::to_string(bytes) +
                                 " bytes is over limits.max_document (" +
                                 std::to_string(limits.max_document_bytes) + ")");
  }
  if (document.tokens == 0) {
    bad(row, empty_row("empty document"));
    if (!has_room(0)) open_block(row, next_offset_);
    extend(0);
    return;
  }
  part_->lengths.push_back(static_cast<uint32_t>(document.tokens));
  // Rows before the first bytes of a block do not fix its offset.
  if (!part_->blocks.empty() && part_->blocks.back().size_bytes == 0 && has_room(bytes)) {
    part_->blocks.back().offset = document.offset;
    next_offset_ = document.offset;
  }
  if (!has_room(bytes) || document.offset != next_offset_) open_block(row, document.offset);
  extend(bytes);
  next_offset_ = document.offset + bytes;
}

// Alone in a block of no bytes: it is never read.
void DocumentBlocks::add_bad(const TokenDocument& document, const std::string& what) {
  const uint64_t row = part_->entry.rows++;
  bad(row, what);
  open_block(row, document.offset);
  current_rows_ = job_.options->block_rows;
  extend(0);
}

bool DocumentBlocks::has_room(uint64_t bytes) const {
  if (part_->blocks.empty() || current_rows_ >= job_.options->block_rows) return false;
  const uint64_t size = part_->blocks.back().size_bytes;
  return size == 0 ||
         size + bytes <= std::min(job_.options->block_bytes, job_.source->limits.max_block_bytes);
}

void DocumentBlocks::open_block(uint64_t row, uint64_t offset) {
  model::BlockEntry entry;
  entry.first_row = row;
  entry.offset = offset;
  part_->blocks.push_back(entry);
  current_rows_ = 0;
  next_offset_ = offset;
}

void DocumentBlocks::extend(uint64_t bytes) {
  ++part_->blocks.back().rows;
  ++current_rows_;
  part_->blocks.back().size_bytes += bytes;
}

void DocumentBlocks::bad(uint64_t row, const std::string& what) {
  part_->lengths.push_back(model::kBadRow);
  part_->bad.emplace_back(row, job_.reason(row, what));
}

}  // namespace overlord::columnar
