// Indexing of CSV: the header says which columns there are, records are counted and not parsed.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "overlord/columnar/formats/csv/csv_columns.h"
#include "overlord/columnar/formats/csv/csv_reader.h"
#include "overlord/columnar/formats/csv/csv_text.h"
#include "overlord/columnar/streams/record_blocks.h"
#include "overlord/columnar/streams/text_stream.h"

namespace overlord::columnar {
namespace {

constexpr uint64_t kMaxHeaderBytes = 1 << 20;

class RecordCutter {
 public:
  RecordCutter(const ShardJob& job, RecordBlocks* blocks)
      : job_(job),
        blocks_(blocks),
        delimiter_(csv_delimiter(job.file.uri)),
        scanner_(
            delimiter_, [this](uint64_t offset) { begin(offset); },
            [this](uint64_t offset, uint64_t size) { end(offset, size); }) {}

  Status add(std::string_view piece, uint64_t offset) {
    piece_ = piece;
    piece_offset_ = offset;
    scanner_.add(piece, offset);
    if (!has_header_ && in_header_) hold(offset + piece.size());
    if (header_.size() > kMaxHeaderBytes) return job_.error("has a header of more than 1 MiB");
    return status_;
  }

  Status finish() {
    const uint64_t rest = scanner_.rest();
    if (rest > 0 && has_header_) blocks_->end_with_text(rest);
    if (rest > 0 && !has_header_) take_header();
    OVERLORD_RETURN_IF_ERROR(status_);
    return has_header_ ? Status() : job_.error("has no header", Code::kInvalidArgument);
  }

 private:
  void begin(uint64_t offset) {
    if (has_header_) return blocks_->begin(offset);
    in_header_ = true;
    header_.clear();
    held_ = offset;
  }

  void end(uint64_t offset, uint64_t size) {
    if (has_header_) return blocks_->end(offset, size);
    hold(offset);
    take_header();
  }

  // What of the header lies in the piece, up to this offset.
  void hold(uint64_t offset) {
    const uint64_t from = std::max(held_, piece_offset_);
    header_.append(piece_.substr(from - piece_offset_, offset - from));
    held_ = offset;
  }

  void take_header() {
    has_header_ = true;
    std::string_view record = header_;
    while (record.ends_with('\n') || record.ends_with('\r')) record.remove_suffix(1);
    std::vector<std::string> names;
    const std::string fault = split_csv(record, delimiter_, &names);
    if (!fault.empty()) {
      status_ = job_.error("its header: " + fault, Code::kInvalidArgument);
      return;
    }
    auto columns = CsvColumns::find(names, *job_.source);
    if (columns.ok()) return blocks_->set_head(columns->head());
    status_ = job_.error(columns.status().message(), columns.status().code());
  }

  const ShardJob& job_;
  RecordBlocks* const blocks_;
  const char delimiter_;
  CsvScanner scanner_;
  std::string_view piece_;
  uint64_t piece_offset_ = 0;
  bool has_header_ = false;
  bool in_header_ = false;
  std::string header_;
  uint64_t held_ = 0;  // up to this offset
  Status status_;
};

}  // namespace

Result<ShardPart> index_csv_shard(const ShardJob& job) {
  ShardPart part;
  part.entry.uri = job.file.uri;
  part.entry.fingerprint = job.file.fingerprint;
  const std::unique_ptr<TextStream> stream = open_text_stream(job);
  RecordBlocks blocks(job, *stream, "record", &part);
  RecordCutter cutter(job, &blocks);
  while (true) {
    OVERLORD_TRY(const std::string_view piece, stream->next());
    if (piece.empty()) break;
    const uint64_t offset = stream->text_offset();
    OVERLORD_RETURN_IF_ERROR(cutter.add(piece, offset));
    blocks.pass(offset + piece.size());
  }
  OVERLORD_RETURN_IF_ERROR(cutter.finish());
  blocks.finish();
  part.scanned = stream->scanned();
  return part;
}

}  // namespace overlord::columnar
