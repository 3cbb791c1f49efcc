// Indexing of JSONL shards: rows are counted, not parsed and never held; a line of any size costs
// no memory. Blank lines are no rows. A `.json` file that is one array has its elements as rows.
#include <cstring>
#include <memory>
#include <string>

#include "overlord/columnar/formats/jsonl/json_elements.h"
#include "overlord/columnar/formats/jsonl/jsonl_reader.h"
#include "overlord/columnar/streams/record_blocks.h"
#include "overlord/columnar/streams/text_stream.h"

namespace overlord::columnar {
namespace {

class LineCutter {
 public:
  explicit LineCutter(RecordBlocks* blocks) : blocks_(blocks) {}

  void add(std::string_view piece, uint64_t offset) {
    size_t at = 0;
    while (at < piece.size()) {
      if (!in_line_) begin_line(offset + at);
      const void* newline = std::memchr(piece.data() + at, '\n', piece.size() - at);
      const size_t end =
          newline == nullptr
              ? piece.size()
              : static_cast<size_t>(static_cast<const char*>(newline) - piece.data());
      if (blank_) look_for_ink(piece.substr(at, end - at), offset + at);
      line_bytes_ += end - at;
      at = end;
      if (newline == nullptr) break;
      ++at;
      in_line_ = false;
      if (is_row()) blocks_->end(offset + at, line_bytes_);
    }
  }

  // The last line may lack its newline.
  void finish() {
    if (in_line_ && is_row()) blocks_->end_with_text(line_bytes_);
  }

 private:
  void begin_line(uint64_t offset) {
    in_line_ = true;
    blank_ = true;
    line_bytes_ = 0;
    line_start_ = offset;
    blocks_->begin(offset);
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

  bool is_row() const {
    const bool part_of_mark = line_start_ == 0 && marked_ % kByteOrderMark.size() != 0;
    return !blank_ || part_of_mark;
  }

  RecordBlocks* const blocks_;
  bool in_line_ = false;
  bool blank_ = true;
  size_t marked_ = 0;  // bytes of a byte order mark seen at the start of the file
  uint64_t line_start_ = 0;
  uint64_t line_bytes_ = 0;
};

class ArrayCutter {
 public:
  explicit ArrayCutter(RecordBlocks* blocks)
      : scanner_(
            /*inside=*/false,
            [this, blocks](uint64_t offset) {
              begin_ = offset;
              blocks->begin(offset);
            },
            [this, blocks](uint64_t offset) { blocks->end(offset, offset - begin_); }) {}

  Status add(std::string_view piece, uint64_t offset) { return scanner_.add(piece, offset); }
  Status finish(uint64_t offset) { return scanner_.finish(offset); }

 private:
  uint64_t begin_ = 0;
  ElementScanner scanner_;
};

Status cut(const ShardJob& job, TextStream* stream, RecordBlocks* blocks) {
  OVERLORD_TRY(std::string_view piece, stream->next());
  const bool is_array = may_be_array(job.file.uri) && begins_array(piece);
  if (is_array || !job.source->media.empty())
    blocks->set_head(is_array ? kJsonElements : kJsonLines);
  if (is_array) blocks->set_unit("element");
  LineCutter lines(blocks);
  ArrayCutter elements(blocks);
  uint64_t end = 0;
  while (!piece.empty()) {
    const uint64_t offset = stream->text_offset();
    if (is_array) {
      const Status added = elements.add(piece, offset);
      if (!added.ok()) return job.error(added.message());
    } else {
      lines.add(piece, offset);
    }
    end = offset + piece.size();
    blocks->pass(end);
    OVERLORD_TRY(piece, stream->next());
  }
  if (!is_array) {
    lines.finish();
    return {};
  }
  const Status whole = elements.finish(end);
  return whole.ok() ? whole : job.error(whole.message());
}

}  // namespace

Result<ShardPart> index_jsonl_shard(const ShardJob& job) {
  ShardPart part;
  part.entry.uri = job.file.uri;
  part.entry.fingerprint = job.file.fingerprint;
  const std::unique_ptr<TextStream> stream = open_text_stream(job);
  RecordBlocks blocks(job, *stream, "line", &part);
  OVERLORD_RETURN_IF_ERROR(cut(job, stream.get(), &blocks));
  blocks.finish();
  part.scanned = stream->scanned();
  return part;
}

}  // namespace overlord::columnar
