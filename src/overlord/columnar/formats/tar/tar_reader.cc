#include "overlord/columnar/formats/tar/tar_reader.h"

#include <algorithm>

#include "overlord/columnar/formats/tar/tar_rows.h"
#include "overlord/columnar/index/indexed_reader.h"
#include "overlord/columnar/streams/joined_ranges.h"
#include "overlord/columnar/streams/text_stream.h"

namespace overlord::columnar {
namespace {

// The bytes of a member, unpacked where it is packed.
class MemberBytes {
 public:
  // kResource alone; what is wrong with the member is its fault.
  template <typename Find>
  Status take(const MemberPlace& place, Find find, const model::SourceLimits& limits) {
    stored_ = find(place);
    packed_ = place.packed;
    if (!packed_) return {};
    auto unpacked = unpack_gzip(stored_, limits.max_document_bytes);
    if (unpacked.ok()) {
      unpacked_ = std::move(*unpacked);
    } else if (unpacked.status().code() == Code::kBadData) {
      fault_ = unpacked.status().message();
    } else {
      return unpacked.status();
    }
    return {};
  }
  std::string_view bytes() const { return packed_ ? std::string_view(unpacked_) : stored_; }
  const std::string& fault() const { return fault_; }

 private:
  bool packed_ = false;
  std::string_view stored_;
  std::string unpacked_;
  std::string fault_;
};

struct RowMembers {
  MemberBytes text;
  MemberBytes metadata;

  std::string fault(const std::string& text_extension) const {
    if (!metadata.fault().empty()) return "member .json.gz: " + metadata.fault();
    if (text.fault().empty()) return {};
    const bool named = text_extension.ends_with(".gz");
    return "member ." + text_extension + (named ? "" : ".gz") + ": " + text.fault();
  }
};

class TarReader final : public IndexedReader {
 public:
  TarReader(std::shared_ptr<const IndexFile> file, const model::Source& source)
      : IndexedReader(std::move(file), source) {}

  Result<std::vector<RangeRequest>> ranges(const BlockRequest& request) const override {
    OVERLORD_TRY(const TarBlock samples, read_block(request));
    if (is_compressed(request)) return compressed_range(request, samples);
    JoinedRanges wanted = text_ranges(request, samples);
    return wanted.ranges();
  }

  Result<RowBlock> decode(const BlockRequest& request,
                          const std::vector<runtime::Bytes>& pieces) const override {
    OVERLORD_TRY(const std::vector<RangeRequest> needed, ranges(request));
    OVERLORD_RETURN_IF_ERROR(check_pieces(request, needed, pieces));
    OVERLORD_TRY(TarBlock samples, read_block(request));
    if (!is_compressed(request)) {
      JoinedRanges wanted = text_ranges(request, samples);
      wanted.ranges();
      return rows_of(request, samples, [&](const MemberPlace& place) {
        return wanted.find(pieces, place.offset, place.size_bytes);
      });
    }
    OVERLORD_TRY(const runtime::Bytes tar, expand_block(request, &samples, pieces));
    OVERLORD_TRY(RowBlock rows, rows_of(request, samples, [&](const MemberPlace& place) {
                   return member_of(request, tar, place);
                 }));
    rows.skipped_bytes = samples.restart.skip;
    return rows;
  }

  Result<MediaPlaces> media_places(const BlockRequest& request) const override {
    OVERLORD_TRY(const TarBlock samples, read_block(request));
    const model::ShardEntry& shard = file_->shards()[block(request.block).shard];
    const bool compressed = is_compressed(request);
    MediaPlaces places;
    for_each_wanted(request, samples, [&](const SampleEntry& sample) {
      for (const std::vector<MemberPlace>& list : sample.media) {
        for (const MemberPlace& member : list) {
          MediaPlace& place = places.blobs.emplace_back();
          place.kind = compressed ? MediaPlace::Kind::kDecoded : MediaPlace::Kind::kRange;
          place.size_bytes = member.size_bytes;
          if (compressed) continue;
          place.uri = shard.uri;
          place.offset = member.offset;
          place.expected = shard.fingerprint;
        }
        places.ends.push_back(static_cast<uint32_t>(places.blobs.size()));
      }
    });
    return places;
  }

  Result<std::vector<RangeRequest>> media_ranges(const BlockRequest& request) const override {
    OVERLORD_TRY(const TarBlock samples, read_block(request));
    if (!is_compressed(request)) return std::vector<RangeRequest>();
    return compressed_range(request, samples);
  }

  Result<std::vector<runtime::Bytes>> decode_media(
      const BlockRequest& request, const std::vector<runtime::Bytes>& pieces) const override {
    OVERLORD_TRY(const std::vector<RangeRequest> needed, media_ranges(request));
    OVERLORD_RETURN_IF_ERROR(check_pieces(request, needed, pieces));
    OVERLORD_TRY(TarBlock samples, read_block(request));
    runtime::Bytes tar;
    if (!needed.empty()) {
      OVERLORD_TRY(tar, expand_block(request, &samples, pieces));
    }
    std::vector<runtime::Bytes> blobs;
    for_each_wanted(request, samples, [&](const SampleEntry& sample) {
      for (const std::vector<MemberPlace>& list : sample.media) {
        for (const MemberPlace& member : list) {
          runtime::Bytes& blob = blobs.emplace_back();
          if (needed.empty()) continue;
          const std::string_view bytes = member_of(request, tar, member);
          blob = {tar.holder, bytes.data(), bytes.size()};
        }
      }
    });
    return blobs;
  }

 private:
  bool is_compressed(const BlockRequest& request) const {
    return coding_of(file_->shards()[block(request.block).shard].uri) != Coding::kPlain;
  }

  Status damaged(const BlockRequest& request) const {
    return block_error(request.block, "index is damaged (samples); run `overlord index`");
  }

  // The samples of a block, every member inside of the shard, or of the block where it is
  // compressed.
  Result<TarBlock> read_block(const BlockRequest& request) const {
    OVERLORD_RETURN_IF_ERROR(check_request(request));
    const model::BlockEntry& entry = block(request.block);
    const bool compressed = is_compressed(request);
    ByteReader extra(file_->block_extra(request.block));
    TarBlock out;
    if ((compressed && !read_restart(&extra, &out.restart)) ||
        !read_samples(&extra, entry.offset, entry.rows, source_.media, &out)) {
      return damaged(request);
    }
    const uint64_t size = file_->shards()[entry.shard].fingerprint.size_bytes;
    const uint64_t end = compressed ? entry.offset + entry.size_bytes : size;
    const auto fits = [&](const MemberPlace& place) {
      return !place.present || (place.offset >= entry.offset && place.offset <= end &&
                                place.size_bytes <= end - place.offset);
    };
    const auto all_fit = [&](const std::vector<MemberPlace>& list) {
      return std::all_of(list.begin(), list.end(), fits);
    };
    for (const SampleEntry& sample : out.samples) {
      if (!fits(sample.text) || !fits(sample.metadata) ||
          !std::all_of(sample.media.begin(), sample.media.end(), all_fit) ||
          sample.text.size_bytes > source_.limits.max_document_bytes) {
        return damaged(request);
      }
    }
    return out;
  }

  template <typename Visit>
  static void for_each_wanted(const BlockRequest& request, const TarBlock& samples, Visit visit) {
    if (request.rows.empty()) {
      for (const SampleEntry& sample : samples.samples) visit(sample);
    }
    for (const uint32_t row : request.rows) visit(samples.samples[row]);
  }

  bool wants_metadata(const SampleEntry& sample) const {
    return sample.metadata.present && !source_.metadata_columns.empty();
  }

  JoinedRanges text_ranges(const BlockRequest& request, const TarBlock& samples) const {
    JoinedRanges wanted(block(request.block).shard);
    for (const SampleEntry& sample : samples.samples) {
      if (sample.text.present) wanted.want(sample.text.offset, sample.text.size_bytes);
      if (!wants_metadata(sample)) continue;
      wanted.want(sample.metadata.offset, sample.metadata.size_bytes);
    }
    return wanted;
  }

  Result<std::vector<RangeRequest>> compressed_range(const BlockRequest& request,
                                                     const TarBlock& samples) const {
    const model::BlockEntry& entry = block(request.block);
    if (entry.size_bytes == 0) return std::vector<RangeRequest>();
    if (entry.size_bytes > source_.limits.max_block_bytes) {
      return block_error(request.block, "is over limits.max_block");
    }
    const RangeRequest range{entry.shard, samples.restart.point.first_byte(),
                             samples.restart.compressed_bytes};
    const uint64_t size = file_->shards()[entry.shard].fingerprint.size_bytes;
    if (range.offset > size || range.size_bytes > size - range.offset) return damaged(request);
    return std::vector<RangeRequest>{range};
  }

  // The stretch of the tar that the block is.
  Result<runtime::Bytes> expand_block(const BlockRequest& request, TarBlock* samples,
                                      const std::vector<runtime::Bytes>& pieces) const {
    const model::BlockEntry& entry = block(request.block);
    if (pieces.empty()) return runtime::Bytes();
    const Status window = load_window(file_->shard_extra(entry.shard), &samples->restart);
    if (!window.ok()) return block_error(request.block, window.message());
    OVERLORD_TRY(const runtime::Buffer tar, buffer(request, entry.size_bytes));
    const Status expanded =
        expand(coding_of(file_->shards()[entry.shard].uri), samples->restart.point,
               std::string_view(pieces[0].data, pieces[0].size), samples->restart.skip,
               tar.data.get(), entry.size_bytes);
    if (!expanded.ok()) return block_error(request.block, expanded.message(), expanded.code());
    return runtime::Bytes{tar.data, tar.data.get(), entry.size_bytes};
  }

  std::string_view member_of(const BlockRequest& request, const runtime::Bytes& tar,
                             const MemberPlace& place) const {
    return std::string_view(tar.data + (place.offset - block(request.block).offset),
                            place.size_bytes);
  }

  template <typename Find>
  Result<RowBlock> rows_of(const BlockRequest& request, const TarBlock& samples, Find find) const {
    const auto name = [&](uint32_t row, std::string_view what) {
      return reason(request.block, row, what);
    };
    SampleRows rows(source_, name, "member ." + text_member(source_).extension);
    std::vector<RowMembers> members(samples.samples.size());
    size_t longest = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      const SampleEntry& sample = samples.samples[i];
      if (sample.bad) continue;
      OVERLORD_RETURN_IF_ERROR(members[i].text.take(sample.text, find, source_.limits));
      if (wants_metadata(sample)) {
        OVERLORD_RETURN_IF_ERROR(members[i].metadata.take(sample.metadata, find, source_.limits));
      }
      longest =
          std::max({longest, members[i].text.bytes().size(), members[i].metadata.bytes().size()});
    }
    OVERLORD_RETURN_IF_ERROR(rows.prepare(longest));
    for (size_t i = 0; i < members.size(); ++i) {
      const SampleEntry& sample = samples.samples[i];
      if (sample.bad) {
        rows.add_bad(std::string(file_->bad_reason(block(request.block).first_row + i)));
        continue;
      }
      const std::string fault = members[i].fault(text_member(source_).extension);
      if (fault.empty()) {
        rows.add(members[i].text.bytes(), members[i].metadata.bytes(), wants_metadata(sample));
      } else {
        rows.add_bad(name(static_cast<uint32_t>(i), fault));
      }
    }
    return rows.take();
  }
};

}  // namespace

Result<std::unique_ptr<BlockReader>> make_tar_reader(std::shared_ptr<const IndexFile> file,
                                                     const model::Source& source) {
  return std::unique_ptr<BlockReader>(std::make_unique<TarReader>(std::move(file), source));
}

}  // namespace overlord::columnar
