#include "overlord/columnar/formats/tokens/token_reader.h"

#include <algorithm>
#include <cstring>

#include "overlord/base/bytes.h"
#include "overlord/columnar/index/indexed_reader.h"
#include "overlord/columnar/media_columns.h"
#include "overlord/columnar/token_checks.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

// Wanted documents closer than this are read in one go.
constexpr uint64_t kJoinedGapBytes = 32 << 10;

class TokenReader final : public IndexedReader {
 public:
  TokenReader(std::shared_ptr<const IndexFile> file, const model::Source& source,
              std::vector<Element> elements)
      : IndexedReader(std::move(file), source), elements_(std::move(elements)) {}

  Result<std::vector<RangeRequest>> ranges(const BlockRequest& request) const override {
    OVERLORD_TRY(const std::vector<uint64_t> ends, document_ends(request));
    return ranges_of(request, ends);
  }

  Result<RowBlock> decode(const BlockRequest& request,
                          const std::vector<runtime::Bytes>& pieces) const override {
    OVERLORD_TRY(const std::vector<uint64_t> ends, document_ends(request));
    const std::vector<RangeRequest> ranges = ranges_of(request, ends);
    OVERLORD_RETURN_IF_ERROR(check_pieces(request, ranges, pieces));
    RowBlock out;
    TokenBlock& tokens = out.tokens;
    tokens.element = element_of(request);
    OVERLORD_TRY(tokens.values, joined(request, pieces, element_bytes(tokens.element)));
    fill_rows(request, ends, ranges, &tokens);
    check_token_ids(
        source_.vocabulary,
        [&](uint32_t row, std::string_view what) { return reason(request.block, row, what); },
        &tokens);
    return out;
  }

  Result<MediaPlaces> media_places(const BlockRequest& request) const override {
    OVERLORD_RETURN_IF_ERROR(check_request(request));
    MediaPlaces places;
    if (source_.media.empty()) return places;
    ByteReader extra(file_->block_extra(request.block));
    if (!read_media(request, &extra, &places)) return damaged(request, "media");
    return wanted_places(std::move(places), source_.media.size(), request.rows);
  }

 private:
  bool read_media(const BlockRequest& request, ByteReader* extra, MediaPlaces* out) const {
    const model::BlockEntry& entry = block(request.block);
    return read_media_rows(extra, file_->shards()[entry.shard], entry.rows, source_.media, out);
  }

  Status damaged(const BlockRequest& request, const char* what) const {
    return block_error(request.block,
                       "index is damaged (" + std::string(what) + "); run `overlord index`");
  }

  Element element_of(const BlockRequest& request) const {
    return elements_[block(request.block).shard];
  }

  // Where each document of the block ends in it, in elements. Lengths of the index, plus what the
  // block notes of bad documents that have bytes nonetheless.
  Result<std::vector<uint64_t>> document_ends(const BlockRequest& request) const {
    OVERLORD_RETURN_IF_ERROR(check_request(request));
    const model::BlockEntry& entry = block(request.block);
    const auto lengths = file_->lengths().subspan(entry.first_row, entry.rows);
    std::vector<uint64_t> counts(entry.rows);
    for (uint32_t row = 0; row < entry.rows; ++row) {
      counts[row] = lengths[row] == model::kBadRow ? 0 : lengths[row];
    }
    ByteReader noted(file_->block_extra(request.block));
    if (MediaPlaces places; !source_.media.empty() && !read_media(request, &noted, &places)) {
      return damaged(request, "media");
    }
    while (!noted.at_end()) {
      const uint64_t row = noted.varint();
      const uint64_t count = noted.varint();
      if (noted.failed() || row >= entry.rows || count > entry.size_bytes) {
        return damaged(request, "bad documents");
      }
      counts[row] = count;
    }
    uint64_t end = 0;
    for (uint64_t& count : counts) count = end += count;
    if (end * element_bytes(element_of(request)) != entry.size_bytes) {
      return damaged(request, "lengths");
    }
    return counts;
  }

  std::vector<RangeRequest> ranges_of(const BlockRequest& request,
                                      const std::vector<uint64_t>& ends) const {
    const model::BlockEntry& entry = block(request.block);
    std::vector<RangeRequest> ranges;
    if (entry.size_bytes == 0) return ranges;
    if (request.rows.empty()) return {{entry.shard, entry.offset, entry.size_bytes}};
    const uint64_t width = element_bytes(element_of(request));
    for (const uint32_t row : request.rows) {
      if (file_->lengths()[entry.first_row + row] == model::kBadRow) continue;
      const uint64_t begin = entry.offset + (row == 0 ? 0 : ends[row - 1]) * width;
      const uint64_t end = entry.offset + ends[row] * width;
      if (begin == end) continue;
      if (!ranges.empty() &&
          begin - (ranges.back().offset + ranges.back().size_bytes) < kJoinedGapBytes) {
        ranges.back().size_bytes = end - ranges.back().offset;
      } else {
        ranges.push_back({entry.shard, begin, end - begin});
      }
    }
    return ranges;
  }

  // One piece is used where it lies; several are put into one buffer.
  Result<runtime::Bytes> joined(const BlockRequest& request,
                                const std::vector<runtime::Bytes>& pieces, size_t width) const {
    if (pieces.empty()) return runtime::Bytes();
    const bool is_aligned = reinterpret_cast<uintptr_t>(pieces[0].data) % width == 0;
    if (pieces.size() == 1 && is_aligned) return pieces[0];
    size_t total = 0;
    for (const runtime::Bytes& piece : pieces) total += piece.size;
    OVERLORD_TRY(const runtime::Buffer out, buffer(request, total));
    size_t at = 0;
    for (const runtime::Bytes& piece : pieces) {
      std::memcpy(out.data.get() + at, piece.data, piece.size);
      at += piece.size;
    }
    return out.view();
  }

  void fill_rows(const BlockRequest& request, const std::vector<uint64_t>& ends,
                 const std::vector<RangeRequest>& ranges, TokenBlock* tokens) const {
    const model::BlockEntry& entry = block(request.block);
    const uint64_t width = element_bytes(tokens->element);
    tokens->begins.assign(entry.rows, 0);
    tokens->counts.assign(entry.rows, 0);
    size_t range = 0;
    uint64_t range_at = 0;  // where `range` begins in the joined bytes
    const uint32_t wanted =
        request.rows.empty() ? entry.rows : static_cast<uint32_t>(request.rows.size());
    for (uint32_t i = 0; i < wanted; ++i) {
      const uint32_t row = request.rows.empty() ? i : request.rows[i];
      const uint32_t count = file_->lengths()[entry.first_row + row];
      tokens->counts[row] = count;
      if (count == model::kBadRow) {
        tokens->bad.push_back({row, std::string(file_->bad_reason(entry.first_row + row))});
        continue;
      }
      if (count == 0) continue;
      const uint64_t begin = entry.offset + (row == 0 ? 0 : ends[row - 1]) * width;
      while (begin >= ranges[range].offset + ranges[range].size_bytes) {
        range_at += ranges[range++].size_bytes;
      }
      tokens->begins[row] = (range_at + begin - ranges[range].offset) / width;
    }
  }

  const std::vector<Element> elements_;  // by shard
};

}  // namespace

Result<std::unique_ptr<BlockReader>> make_token_reader(std::shared_ptr<const IndexFile> file,
                                                       const model::Source& source) {
  if (file->lengths().size() != file->rows()) {
    return bad_data("index of source " + runtime::quote(source.name) +
                    " has no lengths; run `overlord index`");
  }
  std::vector<Element> elements;
  for (uint32_t shard = 0; shard < file->shards().size(); ++shard) {
    ByteReader extra(file->shard_extra(shard));
    const uint8_t element = extra.u8();
    if (!extra.status("element").ok() || element > static_cast<uint8_t>(Element::kI64)) {
      return bad_data("index of source " + runtime::quote(source.name) +
                      " is damaged (element type); run `overlord index`");
    }
    elements.push_back(static_cast<Element>(element));
  }
  return std::unique_ptr<BlockReader>(
      std::make_unique<TokenReader>(std::move(file), source, std::move(elements)));
}

void note_bad_documents(const std::vector<uint32_t>& stored_lengths, ShardPart* part) {
  ByteWriter extras;
  const std::vector<uint64_t> media_ends = std::move(part->block_extra_ends);
  part->block_extra_ends.clear();
  for (size_t block = 0; block < part->blocks.size(); ++block) {
    const model::BlockEntry& entry = part->blocks[block];
    if (!media_ends.empty()) {
      const uint64_t begin = block == 0 ? 0 : media_ends[block - 1];
      extras.raw(part->block_extras.data() + begin, media_ends[block] - begin);
    }
    for (uint32_t row = 0; row < entry.rows; ++row) {
      const uint32_t stored = stored_lengths[entry.first_row + row];
      const bool now_bad = part->lengths[entry.first_row + row] == model::kBadRow;
      if (!now_bad || stored == model::kBadRow) continue;
      extras.varint(row);
      extras.varint(stored);
    }
    part->block_extra_ends.push_back(extras.size());
  }
  part->block_extras = extras.take();
  if (part->block_extras.empty()) part->block_extra_ends.clear();
}

}  // namespace overlord::columnar
