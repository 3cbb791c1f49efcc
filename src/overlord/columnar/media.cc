#include "overlord/columnar/media.h"

#include <algorithm>
#include <cmath>

#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index/index_file.h"
#include "overlord/columnar/index/shard_job.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

constexpr size_t kPartValues = 2;  // the last ones of a blob, where a field has parts

uint32_t probe_values(const ShardJob& job) {
  return job.options->probe == nullptr ? 0 : job.options->probe->values_per_blob();
}

}  // namespace

MediaNotes::MediaNotes(const ShardJob& job, ShardPart* part)
    : job_(job), part_(part), per_field_(1 + size_t{probe_values(job)}) {
  part_->media.resize(job.source->media.size() * per_field_);
  part_->media_ends.resize(job.source->media.size());
}

uint32_t MediaNotes::head_bytes(bool can_read) const {
  const bool looks = job_.options->probe != nullptr && !job_.source->media.empty();
  if (!looks) return 0;
  return can_read ? std::min(job_.options->probe->head_bytes(), kMaxHeadBytes) : kMaxHeadBytes;
}

void MediaNotes::begin_row() {
  for (size_t field = 0; field < part_->media_ends.size(); ++field) {
    part_->media_ends[field].push_back(part_->media[field * per_field_].size());
  }
}

Result<BlobNote> MediaNotes::look(size_t field, const BlobSource& blob) const {
  const uint64_t most = std::min<uint64_t>(job_.source->limits.max_media_bytes, UINT32_MAX - 1);
  const model::MediaField& what = job_.source->media[field];
  BlobNote note;
  if (blob.size_bytes > most) {
    note.fault = "media " + runtime::quote(what.name) + " has " + std::to_string(blob.size_bytes) +
                 " bytes, over limits.max_media (" + std::to_string(most) + ")";
    return note;
  }
  note.size_bytes = static_cast<uint32_t>(blob.size_bytes);
  if (job_.options->probe == nullptr) return note;
  OVERLORD_TRY(const std::string fault, probe(what, blob, std::span(note.values, per_field_ - 1)));
  if (!fault.empty()) note.fault = "media " + runtime::quote(what.name) + ": " + fault;
  return note;
}

Result<std::string> MediaNotes::probe(const model::MediaField& field, const BlobSource& blob,
                                      std::span<uint32_t> values) const {
  const MediaProbe& probe = *job_.options->probe;
  // The same bytes are looked at wherever a blob lies: so much more may be at hand.
  BlobParts parts{blob.head.substr(0, probe.head_bytes()), blob.size_bytes};
  runtime::Bytes more;
  if (parts.head.size() < parts.size_bytes) {
    const Result<BlobRange> need = probe.need(field, parts);
    if (!need.ok()) return need.status().message();
    if (need->size_bytes > 0) {
      const bool at_hand = need->offset + need->size_bytes <= blob.head.size();
      if (need->size_bytes > kMaxHeadBytes || (!at_hand && !blob.read)) {
        return "what describes it lies behind the " +
               std::to_string(at_hand || blob.read ? kMaxHeadBytes : blob.head.size()) +
               " bytes that are read to index it";
      }
      std::string_view bytes = blob.head.substr(at_hand ? need->offset : 0, need->size_bytes);
      if (!at_hand) {
        OVERLORD_TRY(more, blob.read(*need));
        bytes = {more.data, more.size};
      }
      if (need->offset == 0) {
        parts.head = bytes;
      } else {
        parts.tail_offset = need->offset;
        parts.tail = bytes;
      }
    }
  }
  return probe.look(field, parts, values);
}

std::string MediaNotes::add(size_t field, const BlobNote& found, BlobPart part) {
  if (!found.fault.empty()) return found.fault;
  BlobNote note = found;
  if (job_.source->media[field].has_part() && per_field_ > kPartValues) {
    note.values[per_field_ - 1 - kPartValues] = part.start_ms;
    note.values[per_field_ - kPartValues] = part.end_ms;
  }
  std::vector<uint64_t>& ends = part_->media_ends[field];
  const uint64_t begin = ends.size() < 2 ? 0 : ends[ends.size() - 2];
  const std::string fault = too_many_blobs(job_.source->media[field], ends.back() - begin + 1);
  if (!fault.empty()) return fault;
  ++ends.back();
  part_->media[field * per_field_].push_back(note.size_bytes);
  for (size_t i = 1; i < per_field_; ++i) {
    part_->media[field * per_field_ + i].push_back(note.values[i - 1]);
  }
  return {};
}

void MediaNotes::drop_row() {
  for (size_t field = 0; field < part_->media_ends.size(); ++field) {
    std::vector<uint64_t>& ends = part_->media_ends[field];
    ends.back() = ends.size() < 2 ? 0 : ends[ends.size() - 2];
    for (size_t i = 0; i < per_field_; ++i) {
      part_->media[field * per_field_ + i].resize(ends.back());
    }
  }
}

std::string take_part(const model::MediaField& field, std::optional<double> start,
                      std::optional<double> end, BlobPart* part) {
  constexpr double kMostSeconds = 4'000'000;  // 46 days; milliseconds fit 32 bits
  const auto told = [](std::optional<double> seconds, const char* other) {
    return seconds ? std::to_string(*seconds) + " s" : std::string(other);
  };
  const double first = start.value_or(0), last = end.value_or(kMostSeconds);
  // Written so that what is no number is refused too.
  const bool fits = first >= 0 && first < last && last <= kMostSeconds;
  if (fits) {
    part->start_ms = static_cast<uint32_t>(std::llround(first * 1000));
    part->end_ms = end ? static_cast<uint32_t>(std::llround(last * 1000)) : 0;
    if (!end || part->end_ms > part->start_ms) return {};
  }
  return "media " + runtime::quote(field.name) + ": no part is from " + told(start, "its begin") +
         " to " + told(end, "its end");
}

std::string too_many_blobs(const model::MediaField& field, uint64_t count) {
  const uint64_t most = field.many ? model::kMaxRowBlobs : 1;
  if (count <= most) return {};
  return "media " + runtime::quote(field.name) + ": " + std::to_string(count) +
         " blobs, a row may have " + std::to_string(most);
}

std::vector<model::MediaField> media_places_of(const model::Source& source) {
  std::vector<model::MediaField> fields = source.media;
  for (model::MediaField& field : fields) field.use.reset();
  return fields;
}

// Readers of sources without media.
Result<MediaPlaces> BlockReader::media_places(const BlockRequest&) const { return MediaPlaces(); }

Result<std::vector<RangeRequest>> BlockReader::media_ranges(const BlockRequest&) const {
  return std::vector<RangeRequest>();
}

Result<std::vector<runtime::Bytes>> BlockReader::decode_media(
    const BlockRequest&, const std::vector<runtime::Bytes>&) const {
  return std::vector<runtime::Bytes>();
}

Result<std::vector<std::vector<runtime::Bytes>>> read_media(runtime::Storage& storage,
                                                            const model::SourceManifest& manifest,
                                                            const BlockReader& reader,
                                                            const BlockRequest& request) {
  OVERLORD_TRY(const MediaPlaces where, reader.media_places(request));
  const std::vector<MediaPlace>& places = where.blobs;
  const auto decoded = [](const MediaPlace& place) {
    return place.kind == MediaPlace::Kind::kDecoded;
  };
  std::vector<runtime::Bytes> blobs(places.size());
  if (std::any_of(places.begin(), places.end(), decoded)) {
    OVERLORD_TRY(const std::vector<RangeRequest> ranges, reader.media_ranges(request));
    std::vector<runtime::Bytes> pieces;
    for (const RangeRequest& range : ranges) {
      const model::ShardEntry& shard = manifest.shards[range.shard];
      OVERLORD_TRY(
          runtime::Bytes piece,
          storage.read_blocking({shard.uri, range.offset, range.size_bytes, shard.fingerprint}));
      pieces.push_back(std::move(piece));
    }
    OVERLORD_TRY(blobs, reader.decode_media(request, pieces));
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const MediaPlace& place = places[i];
    if (place.kind != MediaPlace::Kind::kRange) continue;
    if (place.size_bytes == 0) {
      blobs[i] = runtime::Bytes::copy_of("");
      continue;
    }
    OVERLORD_TRY(blobs[i], storage.read_blocking(
                               {place.uri, place.offset, place.size_bytes, place.expected}));
  }
  std::vector<std::vector<runtime::Bytes>> lists;
  size_t begin = 0;
  for (const uint32_t end : where.ends) {
    std::vector<runtime::Bytes>& list = lists.emplace_back();
    for (; begin < end; ++begin) list.push_back(std::move(blobs[begin]));
  }
  return lists;
}

}  // namespace overlord::columnar
