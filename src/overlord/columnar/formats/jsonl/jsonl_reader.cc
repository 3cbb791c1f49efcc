#include "overlord/columnar/formats/jsonl/jsonl_reader.h"

#include <algorithm>
#include <cstring>

#include "overlord/base/bytes.h"
#include "overlord/columnar/formats/jsonl/jsonl_rows.h"
#include "overlord/columnar/index/indexed_reader.h"
#include "overlord/columnar/streams/block_restart.h"
#include "overlord/columnar/streams/text_stream.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

// Calls line(text) for each line of `text` that is not blank.
template <typename Line>
void for_each_line(std::string_view text, Line line) {
  while (!text.empty()) {
    const size_t newline = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, newline);
    if (content.find_first_not_of(" \t\r") != std::string_view::npos) line(content);
    text.remove_prefix(std::min(newline + 1, text.size()));
  }
}

class JsonlReader final : public IndexedReader {
 public:
  JsonlReader(std::shared_ptr<const IndexFile> file, const model::Source& source)
      : IndexedReader(std::move(file), source) {}

  Result<std::vector<RangeRequest>> ranges(const BlockRequest& request) const override {
    OVERLORD_RETURN_IF_ERROR(check_request(request));
    const model::BlockEntry& entry = block(request.block);
    if (entry.size_bytes == 0) return std::vector<RangeRequest>();
    if (entry.size_bytes > source_.limits.max_block_bytes) {
      return block_error(request.block, "is over limits.max_block");
    }
    RangeRequest range{entry.shard, entry.offset, entry.size_bytes};
    if (coding(request) != Coding::kPlain) {
      OVERLORD_TRY(const BlockRestart compressed, read_entry(request));
      range.offset = compressed.point.first_byte();
      range.size_bytes = compressed.compressed_bytes;
    }
    const uint64_t size = file_->shards()[entry.shard].fingerprint.size_bytes;
    if (range.offset > size || range.size_bytes > size - range.offset) return damaged(request);
    return std::vector<RangeRequest>{range};
  }

  Result<RowBlock> decode(const BlockRequest& request,
                          const std::vector<runtime::Bytes>& pieces) const override {
    OVERLORD_TRY(const std::vector<RangeRequest> needed, ranges(request));
    OVERLORD_RETURN_IF_ERROR(check_pieces(request, needed, pieces));
    if (needed.empty()) return unreadable(request);
    if (coding(request) == Coding::kPlain) {
      return parse(request, std::string_view(pieces[0].data, pieces[0].size), 0);
    }
    OVERLORD_TRY(BlockRestart entry, read_entry(request));
    const Status window = load_window(file_->shard_extra(block(request.block).shard), &entry);
    if (!window.ok()) return block_error(request.block, window.message());
    const size_t size = block(request.block).size_bytes;
    OVERLORD_TRY(const runtime::Buffer text, buffer(request, size + kLinePadding));
    const Status expanded =
        expand(coding(request), entry.point, std::string_view(pieces[0].data, pieces[0].size),
               entry.skip, text.data.get(), size);
    if (!expanded.ok()) return block_error(request.block, expanded.message(), expanded.code());
    std::memset(text.data.get() + size, ' ', kLinePadding);
    OVERLORD_TRY(RowBlock rows,
                 parse(request, std::string_view(text.data.get(), size), kLinePadding));
    rows.skipped_bytes = entry.skip;
    return rows;
  }

 private:
  Coding coding(const BlockRequest& request) const {
    return coding_of(file_->shards()[block(request.block).shard].uri);
  }

  Status damaged(const BlockRequest& request) const {
    return block_error(request.block, "index is damaged (restart point); run `overlord index`");
  }

  Result<BlockRestart> read_entry(const BlockRequest& request) const {
    ByteReader extra(file_->block_extra(request.block));
    BlockRestart entry;
    if (!read_restart(&extra, &entry) || !extra.at_end()) return damaged(request);
    return entry;
  }

  // A line too long to be read: its block has no bytes, only the reason.
  Result<RowBlock> unreadable(const BlockRequest& request) const {
    const model::BlockEntry& entry = block(request.block);
    if (entry.rows != 1) return damaged(request);
    const model::BadRow bad{0, std::string(file_->bad_reason(entry.first_row))};
    RowBlock rows;
    rows.is_text = !source_.text_column.empty();
    if (rows.is_text) {
      rows.text.rows.ends = {0};
      rows.text.bad = {bad};
    } else {
      rows.tokens.begins = {0};
      rows.tokens.counts = {model::kBadRow};
      rows.tokens.bad = {bad};
    }
    rows.columns.assign(source_.metadata_columns.size(), {0});
    return rows;
  }

  // `readable`: bytes behind `text` that may be read.
  Result<RowBlock> parse(const BlockRequest& request, std::string_view text,
                         size_t readable) const {
    const char* const end = text.data() + text.size() + readable;
    if (block(request.block).offset == 0 && text.starts_with(kByteOrderMark)) {
      text.remove_prefix(kByteOrderMark.size());
    }
    size_t lines = 0, longest = 0;
    for_each_line(text, [&](std::string_view line) {
      ++lines;
      longest = std::max(longest, line.size());
    });
    if (lines != block(request.block).rows) {
      return block_error(request.block, "has " + std::to_string(lines) +
                                            " lines, not what was indexed; run `overlord index`");
    }
    const auto name = [&](uint32_t row, std::string_view what) {
      return reason(request.block, row, what);
    };
    JsonRowParser rows(source_, name);
    OVERLORD_RETURN_IF_ERROR(rows.prepare(longest));
    if (source_.text_column.empty()) {
      // "1," is the shortest way to write a number, and the last of an array needs no comma.
      const size_t most = text.size() / 2 + lines;
      OVERLORD_TRY(const runtime::Buffer tokens, buffer(request, most * sizeof(int32_t)));
      OVERLORD_TRY(const runtime::Buffer mask,
                   buffer(request, source_.mask_column.empty() ? 0 : most));
      rows.use_buffers(tokens, mask);
    }
    for_each_line(text, [&](std::string_view line) {
      rows.add(line, static_cast<size_t>(end - (line.data() + line.size())) >= kLinePadding);
    });
    RowBlock out = rows.take();
    if (!out.is_text) keep_wanted(request.rows, &out.tokens);
    return out;
  }
};

}  // namespace

Result<std::unique_ptr<BlockReader>> make_jsonl_reader(std::shared_ptr<const IndexFile> file,
                                                       const model::Source& source) {
  return std::unique_ptr<BlockReader>(std::make_unique<JsonlReader>(std::move(file), source));
}

}  // namespace overlord::columnar
