#include "overlord/roles/constructor/step_media.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/runtime/quote.h"

namespace overlord::constructor {

StepMedia::StepMedia(model::PlanPtr plan, std::shared_ptr<const model::PlanIndex> index,
                     uint32_t bucket)
    : plan_(std::move(plan)), index_(std::move(index)), bucket_(bucket) {
  OVERLORD_CHECK(bucket_ < index_->buckets.size(), "a group of the plan");
}

const SampleId& StepMedia::document_of(const model::MediaPiece& piece) const {
  const std::vector<uint32_t>& segments = index_->buckets[bucket_].segments;
  OVERLORD_CHECK(piece.ordinal < segments.size(), "a document of this group");
  return plan_->layers.front().segments[segments[piece.ordinal]].id;
}

const SampleId& StepMedia::encoded_of(const model::MediaPiece& piece) const {
  const model::Layer* layer = plan_->encoder();
  OVERLORD_CHECK(layer != nullptr && piece.ordinal < layer->segments.size(),
                 "what is encoded is in the plan");
  return layer->segments[piece.ordinal].id;
}

bool StepMedia::has_document(const SampleId& id) const {
  const std::vector<uint32_t>& segments = index_->buckets[bucket_].segments;
  const model::Layer& layer = plan_->layers.front();
  return std::any_of(segments.begin(), segments.end(),
                     [&](uint32_t segment) { return layer.segments[segment].id == id; });
}

std::vector<PackedPiece> StepMedia::packed(const Payloads& payloads) const {
  std::vector<PackedPiece> out;
  for (const auto& [loader, payload] : payloads) {
    for (const auto* pieces : {&payload->media, &payload->encoded}) {
      for (const model::MediaPiece& piece : *pieces) {
        if (!piece.packed || unpacked_.contains(&piece) || bad_.contains(&piece)) continue;
        out.push_back({&piece, payload->source});
      }
    }
  }
  return out;
}

Status StepMedia::take(const std::vector<PackedPiece>& pieces,
                       const std::vector<Result<runtime::Bytes>>& made) {
  OVERLORD_CHECK(made.size() == pieces.size(), "an answer for every piece");
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (made[i].ok()) {
      unpacked_[pieces[i].piece] = *made[i];
    } else if (made[i].status().code() == Code::kBadData) {
      bad_.emplace(pieces[i].piece, made[i].status());
    } else {
      return made[i].status();
    }
  }
  return {};
}

Refusals StepMedia::undecodable(const Payloads& payloads,
                                const std::vector<model::MediaLayout>& layouts) const {
  Refusals found;
  if (bad_.empty()) return found;
  for (const auto& [loader, payload] : payloads) {
    std::set<SampleId> told;
    const auto tell = [&, &loader = loader](const model::MediaPiece& piece, const SampleId& id) {
      const auto one = bad_.find(&piece);
      if (one == bad_.end() || !has_document(id) || !told.insert(id).second) return;
      found[loader].push_back({id, "media " + runtime::quote(layouts[piece.field].name) + ": " +
                                       one->second.message()});
    };
    for (const model::MediaPiece& piece : payload->media) tell(piece, document_of(piece));
    for (const model::MediaPiece& piece : payload->encoded) tell(piece, encoded_of(piece));
  }
  return found;
}

void StepMedia::forget(const protocol::Payload& payload) {
  for (const auto* pieces : {&payload.media, &payload.encoded}) {
    for (const model::MediaPiece& piece : *pieces) {
      unpacked_.erase(&piece);
      bad_.erase(&piece);
    }
  }
}

// Samples of which something that came for the encoder did not decode.
std::set<SampleId> StepMedia::spoiled(const Payloads& payloads) const {
  std::set<SampleId> out;
  if (bad_.empty()) return out;
  for (const auto& [loader, payload] : payloads) {
    for (const model::MediaPiece& piece : payload->encoded) {
      if (bad_.contains(&piece)) out.insert(encoded_of(piece));
    }
  }
  return out;
}

model::MediaPiece StepMedia::opened(const model::MediaPiece& piece) const {
  model::MediaPiece out = piece;
  if (!piece.packed) return out;
  const auto found = unpacked_.find(&piece);
  OVERLORD_CHECK(found != unpacked_.end(), "what is laid out was unpacked");
  const runtime::Bytes& bytes = found->second;  // nothing, where it was only judged
  out.data = {bytes.data, bytes.size};
  out.packed.reset();
  return out;
}

Status StepMedia::sort(const Payloads& payloads, const std::vector<model::MediaLayout>& layouts,
                       runtime::BufferPool& pool) {
  const std::set<SampleId> without = spoiled(payloads);
  OVERLORD_CHECK(documents_.empty() && encoded_.empty(), "a step is sorted once");
  for (const auto& [loader, payload] : payloads) {
    for (const model::MediaPiece& piece : payload->media) {
      documents_[piece.ordinal].push_back(opened(piece));
    }
    for (const model::MediaPiece& piece : payload->encoded) {
      if (piece.packed && piece.packed->judged_only) continue;
      const SampleId& id = encoded_of(piece);
      if (!without.contains(id)) {
        encoded_[id].push_back(opened(piece));
        continue;
      }
      const uint64_t size = piece.shape.rows * layouts[piece.field].row_bytes();
      const runtime::Buffer zeros = pool.acquire(std::max<uint64_t>(size, 1));
      if (!zeros.data) return pool.refusal(size);
      std::memset(zeros.data.get(), 0, size);
      model::MediaPiece none = piece;
      none.data = {zeros.data.get(), size};
      none.packed.reset();
      encoded_[id].push_back(none);
      zeros_.push_back(zeros);
    }
  }
  return {};
}

void StepMedia::clear() {
  documents_.clear();
  encoded_.clear();
  unpacked_.clear();
  bad_.clear();
  zeros_.clear();
}

}  // namespace overlord::constructor
