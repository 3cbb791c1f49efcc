#include "overlord/model/encoder_part.h"

#include <algorithm>

#include "overlord/base/bytes.h"
#include "overlord/base/check.h"

namespace overlord::model {
namespace {

// Rows of one owner: `rows` are sorted by it.
std::span<const uint32_t> rows_of(std::span<const uint32_t> rows, uint32_t owner,
                                  const auto& owner_of) {
  const auto first = std::partition_point(rows.begin(), rows.end(),
                                          [&](uint32_t row) { return owner_of(row) < owner; });
  const auto end =
      std::partition_point(first, rows.end(), [&](uint32_t row) { return owner_of(row) == owner; });
  return {first, end};
}

struct Moved {
  uint32_t peer = 0;
  uint32_t index = 0;  // of the sample, at the side that looks
};

// By peer, keeping the order of samples.
std::vector<uint32_t> by_peer(std::vector<Moved> moved, std::span<const Segment> samples,
                              std::vector<PeerShare>* shares) {
  std::stable_sort(moved.begin(), moved.end(),
                   [](const Moved& a, const Moved& b) { return a.peer < b.peer; });
  std::vector<uint32_t> order;
  order.reserve(moved.size());
  for (const Moved& one : moved) {
    order.push_back(one.index);
    if (shares->empty() || shares->back().peer != one.peer) shares->push_back({one.peer, 0, 0});
    ++shares->back().samples;
    shares->back().units += samples[one.index].count;
  }
  return order;
}

// The exchange of one microbatch, seen from single ranks.
class Microbatch {
 public:
  Microbatch(const Plan& plan, const PlanIndex& index, uint32_t bucket, uint32_t microbatch)
      : layer_(*plan.encoder()),
        table_(*layer_.encoder->table),
        exchange_(layer_.encoder->exchanges[microbatch]),
        backbone_(plan.layers.front()),
        index_(index.buckets[bucket]),
        bucket_(bucket),
        microbatch_(microbatch) {}

  EncoderPartPtr part_of(Rank rank) const {
    const uint32_t place = table_.place_of[rank];
    if (place == kNoPlace) return nullptr;
    auto part = std::make_shared<EncoderPart>();
    const ClientView& view = table_.views->by_rank[rank];
    part->module = layer_.module;
    part->encoder = view.bucket;
    part->encoders = layer_.buckets;
    part->bytes_per_unit = layer_.encoder->bytes_per_unit;
    part->group = {layer_.encoder->table, &table_.group};
    part->runs = view.share != Share::kNone;
    fill_sent(rank, part.get());
    fill_received(rank, part.get());
    return part;
  }

 private:
  void fill_sent(Rank rank, EncoderPart* part) const {
    std::vector<Moved> moved;
    if (part->runs) {
      const std::vector<Rank>& runners = table_.runners[part->encoder];
      const auto own = std::find(runners.begin(), runners.end(), rank) - runners.begin();
      const auto sent = rows_of(exchange_.sent, part->encoder,
                                [&](uint32_t row) { return layer_.placements[row].bucket; });
      for (const uint32_t bin : sent) {
        const auto number = static_cast<uint32_t>(part->samples.size());
        part->samples.push_back(layer_.segments[bin]);
        const std::vector<Rank>& receivers = table_.receivers[layer_.encoder->backbone_of[bin]];
        for (size_t j = static_cast<size_t>(own); j < receivers.size(); j += runners.size()) {
          moved.push_back({table_.place_of[receivers[j]], number});
        }
      }
      part->dummy = has_dummy(part->encoder);
    }
    part->send_order = by_peer(std::move(moved), part->samples, &part->sends);
  }

  void fill_received(Rank rank, EncoderPart* part) const {
    std::vector<Moved> moved;
    const std::vector<Rank>& receivers = table_.receivers[bucket_];
    const auto found = std::find(receivers.begin(), receivers.end(), rank);
    part->receives = found != receivers.end();
    if (part->receives) {
      const auto own = static_cast<size_t>(found - receivers.begin());
      const EncoderPlan& plan = *layer_.encoder;
      uint32_t document = first_ordinal();
      const auto received =
          rows_of(exchange_.received, bucket_, [&](uint32_t row) { return plan.backbone_of[row]; });
      for (const uint32_t bin : received) {
        const std::vector<Rank>& runners = table_.runners[layer_.placements[bin].bucket];
        moved.push_back({table_.place_of[runners[own % runners.size()]],
                         static_cast<uint32_t>(part->received.size())});
        part->received.push_back(layer_.segments[bin]);
        while (document < index_.segments.size() &&
               index_.segments[document] != plan.backbone_segment[bin]) {
          ++document;
        }
        OVERLORD_CHECK(document < index_.segments.size(), "what is encoded is in the microbatch");
        part->documents.push_back(document - first_ordinal());
      }
    }
    part->receive_order = by_peer(std::move(moved), part->received, &part->receives_from);
  }

  bool has_dummy(uint32_t encoder) const {
    const std::vector<Dummy>& dummies = layer_.encoder->dummies;  // by microbatch, then encoder
    const Dummy own{encoder, microbatch_};
    const auto at =
        std::lower_bound(dummies.begin(), dummies.end(), own, [](const Dummy& a, const Dummy& b) {
          return a.microbatch != b.microbatch ? a.microbatch < b.microbatch : a.encoder < b.encoder;
        });
    return at != dummies.end() && *at == own;
  }

  // The first segment of this microbatch among those of the bucket.
  uint32_t first_ordinal() const {
    const uint32_t row = microbatch_ * backbone_.microbatch_size;
    return row == 0 ? 0 : index_.row_ends[row - 1];
  }

  const Layer& layer_;
  const EncoderTable& table_;
  const Exchange& exchange_;
  const Layer& backbone_;
  const BucketIndex& index_;
  uint32_t bucket_;
  uint32_t microbatch_;
};

template <typename T>
void write_all(const std::vector<T>& values, ByteWriter* out) {
  out->u64(values.size());
  out->digest(digest_of(values.data(), values.size() * sizeof(T)));
}

}  // namespace

std::vector<EncoderPartPtr> encoder_parts(const Plan& plan, const PlanIndex& index, uint32_t bucket,
                                          uint32_t microbatch, std::span<const Rank> ranks) {
  std::vector<EncoderPartPtr> parts(ranks.size());
  if (plan.encoder() == nullptr) return parts;
  const Microbatch exchange(plan, index, bucket, microbatch);
  for (size_t i = 0; i < ranks.size(); ++i) parts[i] = exchange.part_of(ranks[i]);
  return parts;
}

Digest encoder_part_digest(const EncoderPart& part) {
  ByteWriter writer;
  writer.text(part.module);
  writer.u32(part.encoder);
  writer.u32(part.encoders);
  writer.u8(
      static_cast<uint8_t>((part.runs ? 1 : 0) | (part.receives ? 2 : 0) | (part.dummy ? 4 : 0)));
  writer.u32(part.bytes_per_unit);
  write_all(*part.group, &writer);
  write_all(part.samples, &writer);
  write_all(part.send_order, &writer);
  write_all(part.sends, &writer);
  write_all(part.received, &writer);
  write_all(part.documents, &writer);
  write_all(part.receive_order, &writer);
  write_all(part.receives_from, &writer);
  return digest_of(writer.bytes());
}

}  // namespace overlord::model
