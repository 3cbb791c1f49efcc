#include "overlord/columnar/media.h"

#include <algorithm>

#include "overlord/columnar/block_reader.h"
#include "overlord/columnar/index_file.h"
#include "overlord/columnar/shard_job.h"
#include "overlord/runtime/quote.h"

namespace overlord::columnar {
namespace {

uint32_t probe_values(const ShardJob& job) {
  return job.options->probe == nullptr ? 0 : job.options->probe->values_per_blob();
}

}  // namespace

MediaNotes::MediaNotes(const ShardJob& job, ShardPart* part)
    : job_(job), part_(part), per_field_(1 + size_t{probe_values(job)}) {
  part_->media.resize(job.source->media.size() * per_field_);
}

uint32_t MediaNotes::head_bytes() const {
  const bool looks = job_.options->probe != nullptr && !job_.source->media.empty();
  return looks ? std::min(job_.options->probe->head_bytes(), kMaxHeadBytes) : 0;
}

void MediaNotes::begin_row() {
  for (size_t i = 0; i < part_->media.size(); ++i) {
    part_->media[i].push_back(i % per_field_ == 0 ? kNoMedia : 0);
  }
}

std::string MediaNotes::note(size_t field, std::string_view head, uint64_t size_bytes) {
  const uint64_t most =
      std::min<uint64_t>(job_.source->limits.max_media_bytes, uint64_t{kNoMedia} - 1);
  const model::MediaField& what = job_.source->media[field];
  if (size_bytes > most) {
    return "media " + runtime::quote(what.name) + " has " + std::to_string(size_bytes) +
           " bytes, over limits.max_media (" + std::to_string(most) + ")";
  }
  part_->media[field * per_field_].back() = static_cast<uint32_t>(size_bytes);
  if (job_.options->probe == nullptr) return {};
  uint32_t values[kMaxProbeValues] = {};
  const std::string fault =
      job_.options->probe->look(what, head, size_bytes, std::span(values, per_field_ - 1));
  if (!fault.empty()) return "media " + runtime::quote(what.name) + ": " + fault;
  for (size_t i = 1; i < per_field_; ++i) {
    part_->media[field * per_field_ + i].back() = values[i - 1];
  }
  return {};
}

void MediaNotes::drop_row() {
  for (size_t i = 0; i < part_->media.size(); ++i) {
    part_->media[i].back() = i % per_field_ == 0 ? kNoMedia : 0;
  }
}

std::vector<model::MediaField> media_places_of(const model::Source& source) {
  std::vector<model::MediaField> fields = source.media;
  for (model::MediaField& field : fields) field.use.reset();
  return fields;
}

// Readers of sources without media.
Result<std::vector<MediaPlace>> BlockReader::media_places(const BlockRequest&) const {
  return std::vector<MediaPlace>();
}

Result<std::vector<RangeRequest>> BlockReader::media_ranges(const BlockRequest&) const {
  return std::vector<RangeRequest>();
}

Result<std::vector<runtime::Bytes>> BlockReader::decode_media(
    const BlockRequest&, const std::vector<runtime::Bytes>&) const {
  return std::vector<runtime::Bytes>();
}

Result<std::vector<runtime::Bytes>> read_media(runtime::Storage& storage,
                                               const model::SourceManifest& manifest,
                                               const BlockReader& reader,
                                               const BlockRequest& request) {
  OVERLORD_TRY(const std::vector<MediaPlace> places, reader.media_places(request));
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
  return blobs;
}

}  // namespace overlord::columnar
