#include "overlord/columnar/formats/mds/mds_reader.h"

#include <functional>

#include "overlord/columnar/formats/mds/mds_rows.h"
#include "overlord/columnar/formats/mds/mds_samples.h"
#include "overlord/columnar/index/indexed_reader.h"
#include "overlord/columnar/streams/joined_ranges.h"
#include "overlord/columnar/streams/text_stream.h"

namespace overlord::columnar {
namespace {

constexpr uint64_t kMostShardBytes = uint64_t{1} << 32;  // offsets have 32 bits

// A stretch of a shard's text.
using Find = std::function<std::string_view(const MdsSpan& span)>;

class MdsReader final : public IndexedReader {
 public:
  MdsReader(std::shared_ptr<const IndexFile> file, const model::Source& source)
      : IndexedReader(std::move(file), source) {}

  Result<std::vector<RangeRequest>> ranges(const BlockRequest& request) const override {
    OVERLORD_TRY(const Block block, read_block(request));
    if (block.compressed) return whole_shard(request);
    JoinedRanges wanted = row_ranges(request, block);
    return wanted.ranges();
  }

  Result<RowBlock> decode(const BlockRequest& request,
                          const std::vector<runtime::Bytes>& pieces) const override {
    OVERLORD_TRY(const std::vector<RangeRequest> needed, ranges(request));
    OVERLORD_RETURN_IF_ERROR(check_pieces(request, needed, pieces));
    OVERLORD_TRY(const Block block, read_block(request));
    if (block.compressed) {
      OVERLORD_TRY(const runtime::Bytes text, expand_shard(request, pieces));
      return rows_of(request, block, in_text(request, text));
    }
    JoinedRanges wanted = row_ranges(request, block);
    wanted.ranges();
    return rows_of(request, block, [&](const MdsSpan& span) {
      return wanted.find(pieces, span.offset, span.size_bytes);
    });
  }

  Result<MediaPlaces> media_places(const BlockRequest& request) const override {
    OVERLORD_TRY(const Block block, read_block(request));
    const model::ShardEntry& shard = shard_of(request);
    MediaPlaces places;
    for_each_wanted(request, block, [&](const MdsSample& sample) {
      for (const std::vector<MdsSpan>& list : sample.media) {
        for (const MdsSpan& blob : list) {
          MediaPlace& place = places.blobs.emplace_back();
          place.kind = block.compressed ? MediaPlace::Kind::kDecoded : MediaPlace::Kind::kRange;
          place.size_bytes = blob.size_bytes;
          if (block.compressed) continue;
          place.uri = shard.uri;
          place.offset = sample.whole.offset + blob.offset;
          place.expected = shard.fingerprint;
        }
        places.ends.push_back(static_cast<uint32_t>(places.blobs.size()));
      }
    });
    return places;
  }

  Result<std::vector<RangeRequest>> media_ranges(const BlockRequest& request) const override {
    OVERLORD_TRY(const Block block, read_block(request));
    if (!block.compressed) return std::vector<RangeRequest>();
    return whole_shard(request);
  }

  Result<std::vector<runtime::Bytes>> decode_media(
      const BlockRequest& request, const std::vector<runtime::Bytes>& pieces) const override {
    OVERLORD_TRY(const std::vector<RangeRequest> needed, media_ranges(request));
    OVERLORD_RETURN_IF_ERROR(check_pieces(request, needed, pieces));
    OVERLORD_TRY(const Block block, read_block(request));
    runtime::Bytes text;
    if (block.compressed) {
      OVERLORD_TRY(text, expand_shard(request, pieces));
    }
    const Find find = in_text(request, text);
    std::vector<runtime::Bytes> blobs;
    for_each_wanted(request, block, [&](const MdsSample& sample) {
      for (const std::vector<MdsSpan>& list : sample.media) {
        for (const MdsSpan& span : list) {
          runtime::Bytes& blob = blobs.emplace_back();
          if (!block.compressed) continue;
          const std::string_view bytes = find({sample.whole.offset + span.offset, span.size_bytes});
          blob = {text.holder, bytes.data(), bytes.size()};
        }
      }
    });
    return blobs;
  }

 private:
  struct Block {
    bool compressed = false;
    MdsColumns columns;
    std::vector<MdsSample> samples;
  };

  const model::ShardEntry& shard_of(const BlockRequest& request) const {
    return file_->shards()[block(request.block).shard];
  }

  // Everything in it lies inside of the shard's text.
  Result<Block> read_block(const BlockRequest& request) const {
    OVERLORD_RETURN_IF_ERROR(check_request(request));
    const model::BlockEntry& entry = block(request.block);
    const model::ShardEntry& shard = shard_of(request);
    Block out;
    out.compressed = coding_of(shard.uri) != Coding::kPlain;
    uint64_t end = shard.fingerprint.size_bytes;
    if (out.compressed) {
      const bool fits =
          entry.offset <= kMostShardBytes && entry.size_bytes <= source_.limits.max_block_bytes;
      end = fits ? entry.offset + entry.size_bytes : 0;
    }
    ByteReader extra(file_->block_extra(request.block));
    if (!kept_mds_columns(file_->shard_extra(entry.shard), source_, &out.columns) ||
        !read_mds_samples(&extra, entry.offset, end, entry.rows, out.columns.rows.size(), source_,
                          &out.samples)) {
      return block_error(request.block, "index is damaged (samples); run `overlord index`");
    }
    return out;
  }

  template <typename Visit>
  static void for_each_wanted(const BlockRequest& request, const Block& block, Visit visit) {
    if (request.rows.empty()) {
      for (const MdsSample& sample : block.samples) visit(sample);
    }
    for (const uint32_t row : request.rows) visit(block.samples[row]);
  }

  bool reads_values() const { return !source_.media.empty(); }

  JoinedRanges row_ranges(const BlockRequest& request, const Block& block) const {
    JoinedRanges wanted(this->block(request.block).shard);
    for (const MdsSample& sample : block.samples) {
      if (sample.bad) continue;
      if (!reads_values()) wanted.want(sample.whole.offset, sample.whole.size_bytes);
      for (const MdsSpan& span : sample.rows) {
        wanted.want(sample.whole.offset + span.offset, span.size_bytes);
      }
    }
    return wanted;
  }

  std::vector<RangeRequest> whole_shard(const BlockRequest& request) const {
    return {{block(request.block).shard, 0, shard_of(request).fingerprint.size_bytes}};
  }

  // The samples of a compressed shard, which is one block.
  Result<runtime::Bytes> expand_shard(const BlockRequest& request,
                                      const std::vector<runtime::Bytes>& pieces) const {
    const model::BlockEntry& entry = block(request.block);
    OVERLORD_TRY(const runtime::Buffer text, buffer(request, entry.size_bytes));
    const Status expanded = expand(coding_of(shard_of(request).uri), RestartPoint(),
                                   std::string_view(pieces[0].data, pieces[0].size), entry.offset,
                                   text.data.get(), entry.size_bytes);
    if (!expanded.ok()) return block_error(request.block, expanded.message(), expanded.code());
    return runtime::Bytes{text.data, text.data.get(), entry.size_bytes};
  }

  Find in_text(const BlockRequest& request, const runtime::Bytes& text) const {
    const uint64_t begin = block(request.block).offset;
    return [&text, begin](const MdsSpan& span) {
      return std::string_view(text.data + (span.offset - begin), span.size_bytes);
    };
  }

  Result<RowBlock> rows_of(const BlockRequest& request, const Block& block,
                           const Find& find) const {
    const uint64_t first = this->block(request.block).first_row;
    std::vector<MdsRow> rows(block.samples.size());
    std::vector<MdsSpan> spans;
    for (size_t i = 0; i < rows.size(); ++i) {
      const MdsSample& sample = block.samples[i];
      if (sample.bad) {
        rows[i].fault = std::string(file_->bad_reason(first + i));
        if (rows[i].fault.empty()) {  // the index says that it is bad, and not why
          rows[i].fault = reason(request.block, static_cast<uint32_t>(i), "is bad");
        }
        continue;
      }
      std::vector<MdsSpan> wanted = sample.rows;
      if (!reads_values()) {
        const std::string_view whole = find(sample.whole);
        const std::string fault = block.columns.cut(whole, whole.size(), &spans);
        if (!fault.empty()) {
          rows[i].fault = reason(request.block, static_cast<uint32_t>(i), fault);
          continue;
        }
        for (const size_t column : block.columns.rows) wanted.push_back(spans[column]);
      }
      for (const MdsSpan& span : wanted) {
        rows[i].values.push_back(find({sample.whole.offset + span.offset, span.size_bytes}));
      }
    }
    auto made = mds_rows(
        source_, block.columns, rows,
        [&](uint32_t row, std::string_view what) { return reason(request.block, row, what); },
        [&](size_t size) { return buffer(request, size); });
    if (made.ok()) return made;
    return block_error(request.block, made.status().message(), made.status().code());
  }
};

}  // namespace

Result<std::unique_ptr<BlockReader>> make_mds_reader(std::shared_ptr<const IndexFile> file,
                                                     const model::Source& source) {
  return std::unique_ptr<BlockReader>(std::make_unique<MdsReader>(std::move(file), source));
}

}  // namespace overlord::columnar
