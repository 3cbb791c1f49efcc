#include "overlord/columnar/streams/record_blocks.h"

#include <algorithm>

namespace overlord::columnar {

RecordBlocks::RecordBlocks(const ShardJob& job, const TextStream& stream, const char* unit,
                           ShardPart* part)
    : job_(job),
      stream_(stream),
      unit_(unit),
      part_(part),
      coding_(coding_of(job.file.uri)),
      max_record_bytes_(
          std::min(job.source->limits.max_document_bytes, job.source->limits.max_block_bytes)),
      restarts_(coding_) {}

void RecordBlocks::set_head(std::string_view head) {
  ByteWriter kept;
  kept.text(head);
  head_ = kept.take();
}

void RecordBlocks::begin(uint64_t offset) {
  record_begin_ = offset;
  record_restart_ = stream_.restart();
}

void RecordBlocks::add(End end, uint64_t bytes) {
  const uint64_t row = part_->entry.rows++;
  if (bytes > max_record_bytes_) {
    close_block();
    part_->bad.emplace_back(
        row, job_.reason(row, std::string(unit_) + " of " + std::to_string(bytes) +
                                  " bytes is over limits.max_document (" +
                                  std::to_string(job_.source->limits.max_document_bytes) + ")"));
    push_block({row, 1, 0, record_begin_, 0});
    return;
  }
  if (block_rows_ > 0 && !belongs_to_block(end)) close_block();
  if (block_rows_ == 0) {
    block_begin_ = record_begin_;
    first_row_ = row;
    block_restart_ = record_restart_;
  }
  ++block_rows_;
  block_end_ = end;
}

bool RecordBlocks::belongs_to_block(End end) const {
  const uint64_t most = std::min(job_.options->block_bytes, job_.source->limits.max_block_bytes);
  if (block_rows_ >= job_.options->block_rows || end.text - block_begin_ > most) return false;
  // A zstd frame that begins with this record: a block that begins with it skips nothing.
  const bool frame_start =
      coding_ == Coding::kZstd && record_restart_->text_offset == record_begin_;
  return !frame_start || record_begin_ - block_begin_ < most / 2;
}

void RecordBlocks::close_block() {
  if (block_rows_ == 0) return;
  if (coding_ != Coding::kPlain) {
    restarts_.add(block_restart_, block_begin_, block_end_.compressed, &block_extras_);
  }
  push_block({first_row_, block_rows_, 0, block_begin_, block_end_.text - block_begin_});
  block_rows_ = 0;
}

void RecordBlocks::push_block(const model::BlockEntry& entry) {
  part_->blocks.push_back(entry);
  if (coding_ == Coding::kPlain && head_.empty()) return;
  if (entry.size_bytes > 0) block_extras_.raw(head_.data(), head_.size());
  part_->block_extra_ends.push_back(block_extras_.size());
}

void RecordBlocks::finish() {
  close_block();
  part_->extra = restarts_.take_shard_extra();
  part_->block_extras = block_extras_.take();
}

}  // namespace overlord::columnar
