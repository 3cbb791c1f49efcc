// Indexing of JSONL shards: lines are counted, not parsed and never held; a line of any size costs
// no memory. Blank lines are no rows. A line over max_document_bytes is a bad row of its own block
// without bytes, so that nobody ever reads it.
#include <algorithm>
#include <cstring>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/columnar/formats/jsonl/jsonl_reader.h"
#include "overlord/columnar/streams/block_restart.h"
#include "overlord/columnar/streams/text_stream.h"

namespace overlord::columnar {
namespace {

// Where a line or a block ends.
struct End {
  uint64_t text = 0;
  uint64_t compressed = 0;
};

class LineCutter {
 public:
  LineCutter(const ShardJob& job, const TextStream& stream, ShardPart* part)
      : job_(job),
        stream_(stream),
        part_(part),
        coding_(coding_of(job.file.uri)),
        restarts_(coding_),
        max_line_bytes_(
            std::min(job.source->limits.max_document_bytes, job.source->limits.max_block_bytes)) {}

  void add(std::string_view piece) {
    size_t at = 0;
    while (at < piece.size()) {
      if (!in_line_) begin_line(stream_.text_offset() + at);
      const void* newline = std::memchr(piece.data() + at, '\n', piece.size() - at);
      const size_t end =
          newline == nullptr
              ? piece.size()
              : static_cast<size_t>(static_cast<const char*>(newline) - piece.data());
      if (blank_) look_for_ink(piece.substr(at, end - at), stream_.text_offset() + at);
      line_bytes_ += end - at;
      at = end;
      if (newline == nullptr) break;
      ++at;
      end_line({stream_.text_offset() + at, stream_.compressed_end()});
    }
    reached_ = {stream_.text_offset() + piece.size(), stream_.compressed_end()};
  }

  // The last line may lack its newline.
  void finish() {
    if (in_line_) end_line(reached_);
    close_block();
    part_->extra = restarts_.take_shard_extra();
    part_->block_extras = block_extras_.take();
  }

 private:
  void begin_line(uint64_t offset) {
    in_line_ = true;
    blank_ = true;
    line_bytes_ = 0;
    line_start_ = offset;
    line_restart_ = stream_.restart();
  }

  void look_for_ink(std::string_view part, uint64_t offset) {
    for (const char c : part) {
      const bool mark = offset < kByteOrderMark.size() && c == kByteOrderMark[offset];
      if (c != ' ' && c != '\t' && c != '\r' && !mark) {
        blank_ = false;
        return;
      }
      marked_ += mark ? 1 : 0;
      ++offset;
    }
  }

  void end_line(End end) {
    in_line_ = false;
    const bool part_of_mark = line_start_ == 0 && marked_ % kByteOrderMark.size() != 0;
    if (blank_ && !part_of_mark) return;
    const uint64_t row = part_->entry.rows++;
    if (line_bytes_ > max_line_bytes_) {
      close_block();
      part_->bad.emplace_back(
          row, job_.reason(row, "line of " + std::to_string(line_bytes_) +
                                    " bytes is over limits.max_document (" +
                                    std::to_string(job_.source->limits.max_document_bytes) + ")"));
      push_block({row, 1, 0, line_start_, 0});
      return;
    }
    if (block_rows_ > 0 && !belongs_to_block(end)) close_block();
    if (block_rows_ == 0) {
      block_start_ = line_start_;
      first_row_ = row;
      block_restart_ = line_restart_;
    }
    ++block_rows_;
    block_end_ = end;
  }

  bool belongs_to_block(End end) const {
    const uint64_t most = std::min(job_.options->block_bytes, job_.source->limits.max_block_bytes);
    if (block_rows_ >= job_.options->block_rows || end.text - block_start_ > most) return false;
    // A zstd frame that begins with this line: a block that begins with it skips nothing.
    const bool frame_start = coding_ == Coding::kZstd && line_restart_->text_offset == line_start_;
    return !frame_start || line_start_ - block_start_ < most / 2;
  }

  void close_block() {
    if (block_rows_ == 0) return;
    if (coding_ != Coding::kPlain) {
      restarts_.add(block_restart_, block_start_, block_end_.compressed, &block_extras_);
    }
    push_block({first_row_, block_rows_, 0, block_start_, block_end_.text - block_start_});
    block_rows_ = 0;
  }

  void push_block(const model::BlockEntry& entry) {
    part_->blocks.push_back(entry);
    if (coding_ != Coding::kPlain) part_->block_extra_ends.push_back(block_extras_.size());
  }

  const ShardJob& job_;
  const TextStream& stream_;
  ShardPart* const part_;
  const Coding coding_;
  RestartNotes restarts_;
  const uint64_t max_line_bytes_;
  ByteWriter block_extras_;
  End reached_;

  bool in_line_ = false;
  bool blank_ = true;
  size_t marked_ = 0;  // bytes of a byte order mark seen at the start of the file
  uint64_t line_start_ = 0;
  uint64_t line_bytes_ = 0;
  std::shared_ptr<const RestartPoint> line_restart_;

  uint32_t block_rows_ = 0;
  uint64_t block_start_ = 0;
  uint64_t first_row_ = 0;
  End block_end_;
  std::shared_ptr<const RestartPoint> block_restart_;
};

}  // namespace

Result<ShardPart> index_jsonl_shard(const ShardJob& job) {
  ShardPart part;
  part.entry.uri = job.file.uri;
  part.entry.fingerprint = job.file.fingerprint;
  const std::unique_ptr<TextStream> stream = open_text_stream(job);
  LineCutter cutter(job, *stream, &part);
  while (true) {
    OVERLORD_TRY(const std::string_view piece, stream->next());
    if (piece.empty()) break;
    cutter.add(piece);
  }
  cutter.finish();
  part.scanned = stream->scanned();
  return part;
}

}  // namespace overlord::columnar
