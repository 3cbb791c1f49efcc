#include "overlord/columnar/kept_places.h"

#include <algorithm>
#include <string>
#include <utility>

#include "overlord/columnar/index/index_layout.h"
#include "overlord/columnar/index/shard_job.h"

namespace overlord::columnar {
namespace {

using Kind = MediaPlace::Kind;

enum : uint8_t { kKeptFile = 1, kKeptDecoded = 2, kKeptInShard = 3, kKeptMember = 4 };

bool is_inside(const MediaPlace& place) {
  const uint64_t size = place.expected.size_bytes;
  return place.offset <= size && place.size_bytes <= size - place.offset;
}

bool read_place(ByteReader* extra, const model::ShardEntry& shard, const model::MediaField& field,
                MediaPlace* place) {
  const uint8_t kept = extra->u8();
  if (kept == kKeptDecoded) {
    place->kind = Kind::kDecoded;
    place->size_bytes = extra->varint();
    return true;
  }
  place->kind = Kind::kRange;
  switch (kept) {
    case kKeptInShard:
      place->uri = shard.uri;
      place->expected = shard.fingerprint;
      place->offset = extra->varint();
      place->size_bytes = extra->varint();
      return is_inside(*place);
    case kKeptFile: {
      const auto beside = beside_shard(folder_of_paths(field, shard.uri), extra->text());
      if (!beside.ok() || is_tar_root(field)) return false;
      place->uri = *beside;
      place->expected = layout::read_fingerprint(extra);
      place->size_bytes = place->expected.size_bytes;
      return true;
    }
    case kKeptMember:
      if (!is_tar_root(field)) return false;
      place->uri = field.root;
      place->expected = layout::read_fingerprint(extra);
      place->offset = extra->varint();
      place->size_bytes = extra->varint();
      return is_inside(*place);
    default:
      return false;
  }
}

}  // namespace

void keep_in_shard(uint64_t offset, uint64_t size_bytes, ByteWriter* out) {
  out->u8(kKeptInShard);
  out->varint(offset);
  out->varint(size_bytes);
}

void keep_decoded(uint64_t size_bytes, ByteWriter* out) {
  out->u8(kKeptDecoded);
  out->varint(size_bytes);
}

void keep_named(std::string_view path, const NamedFile& file, ByteWriter* out) {
  out->u8(file.is_member ? kKeptMember : kKeptFile);
  if (!file.is_member) out->text(path);
  layout::write_fingerprint(file.file.fingerprint, out);
  if (!file.is_member) return;
  out->varint(file.offset);
  out->varint(file.size_bytes);
}

bool read_media_rows(ByteReader* extra, const model::ShardEntry& shard, size_t rows,
                     const std::vector<model::MediaField>& media, MediaPlaces* out) {
  if (media.empty() || rows > extra->remaining() / media.size()) return false;
  out->ends.reserve(rows * media.size());
  for (size_t i = 0; i < rows * media.size(); ++i) {
    const model::MediaField& field = media[i % media.size()];
    const size_t count = extra->count(1);
    if (!too_many_blobs(field, count).empty()) return false;
    for (size_t blob = 0; blob < count; ++blob) {
      if (!read_place(extra, shard, field, &out->blobs.emplace_back())) return false;
    }
    out->ends.push_back(static_cast<uint32_t>(out->blobs.size()));
  }
  return !extra->failed();
}

MediaPlaces wanted_places(MediaPlaces all, size_t fields, const std::vector<uint32_t>& rows) {
  if (rows.empty()) return all;
  MediaPlaces out;
  for (const uint32_t row : rows) {
    for (size_t list = row * fields; list < (row + 1) * fields; ++list) {
      for (uint32_t i = list == 0 ? 0 : all.ends[list - 1]; i < all.ends[list]; ++i) {
        out.blobs.push_back(std::move(all.blobs[i]));
      }
      out.ends.push_back(static_cast<uint32_t>(out.blobs.size()));
    }
  }
  return out;
}

void note_bad_row(const ShardJob& job, uint64_t row, std::string_view fault, ShardPart* part) {
  for (std::vector<uint32_t>& values : part->columns) {
    if (row < values.size()) values[row] = 0;
  }
  // Metadata columns may have found the row bad already: one reason is enough.
  const auto place =
      std::lower_bound(part->bad.begin(), part->bad.end(), row,
                       [](const auto& bad, uint64_t wanted) { return bad.first < wanted; });
  if (place == part->bad.end() || place->first != row) {
    part->bad.emplace(place, row, job.reason(row, fault));
  }
}

}  // namespace overlord::columnar
