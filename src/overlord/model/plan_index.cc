#include "overlord/model/plan_index.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::model {
namespace {

constexpr uint32_t kNoBin = 0xffffffffu;

// Rows of every bucket -> the bin that sits there (kNoBin: an empty row).
std::vector<uint32_t> seat_bins(const Layer& layer) {
  const uint32_t rows = layer.microbatches * layer.microbatch_size;
  std::vector<uint32_t> seats(size_t{layer.buckets} * rows, kNoBin);
  for (uint32_t bin = 0; bin < layer.placements.size(); ++bin) {
    const Placement& place = layer.placements[bin];
    const size_t seat =
        size_t{place.bucket} * rows + size_t{place.microbatch} * layer.microbatch_size + place.slot;
    OVERLORD_CHECK(seats[seat] == kNoBin, "two bins placed on one seat");
    seats[seat] = bin;
  }
  return seats;
}

void group_by_source(const Layer& layer, uint32_t sources, BucketIndex* bucket) {
  std::vector<uint32_t>& begin = bucket->source_begin;
  begin.assign(sources + 1, 0);
  for (uint32_t segment : bucket->segments) ++begin[layer.segments[segment].id.source + 1];
  for (uint32_t s = 0; s < sources; ++s) begin[s + 1] += begin[s];
  bucket->by_source.resize(bucket->segments.size());
  std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
  for (uint32_t ordinal = 0; ordinal < bucket->segments.size(); ++ordinal) {
    const SourceIndex source = layer.segments[bucket->segments[ordinal]].id.source;
    bucket->by_source[next[source]++] = ordinal;
  }
}

// Which buckets of the backbone have ranks that run an encoder, by encoder.
std::vector<std::vector<uint32_t>> buckets_of_encoders(const Layer& backbone,
                                                       const EncoderTable& table) {
  std::vector<std::vector<uint32_t>> buckets;
  for (const std::vector<Rank>& runners : table.runners) {
    std::vector<uint32_t>& own = buckets.emplace_back();
    for (const Rank rank : runners) own.push_back(backbone.views->by_rank[rank].bucket);
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
  }
  return buckets;
}

void add_encoded(const Plan& plan, uint32_t sources, PlanIndex* index) {
  const Layer* layer = plan.encoder();
  const Layer& backbone = plan.layers.front();
  if (layer == nullptr || !layer->encoder->table || !backbone.views) return;
  const auto buckets = buckets_of_encoders(backbone, *layer->encoder->table);
  for (BucketIndex& bucket : index->buckets) bucket.encoded_begin.assign(sources + 1, 0);
  std::vector<uint32_t> bins(layer->segments.size());  // one segment each; by source
  for (uint32_t bin = 0; bin < bins.size(); ++bin) bins[bin] = bin;
  std::stable_sort(bins.begin(), bins.end(), [&](uint32_t a, uint32_t b) {
    return layer->segments[a].id.source < layer->segments[b].id.source;
  });
  for (const uint32_t bin : bins) {
    for (const uint32_t b : buckets[layer->placements[bin].bucket]) {
      if (b >= index->buckets.size()) continue;
      index->buckets[b].encoded.push_back(bin);
      ++index->buckets[b].encoded_begin[layer->segments[bin].id.source + 1];
    }
  }
  for (BucketIndex& bucket : index->buckets) {
    for (uint32_t s = 0; s < sources; ++s) bucket.encoded_begin[s + 1] += bucket.encoded_begin[s];
  }
}

}  // namespace

std::shared_ptr<const PlanIndex> PlanIndex::make(const Plan& plan, uint32_t sources) {
  auto index = std::make_shared<PlanIndex>();
  index->source_present.assign(sources, 0);
  const Layer& layer = plan.layers.front();
  const std::vector<uint32_t> seats = seat_bins(layer);
  const uint32_t rows = layer.microbatches * layer.microbatch_size;
  index->buckets.resize(layer.buckets);
  for (uint32_t b = 0; b < layer.buckets; ++b) {
    BucketIndex& bucket = index->buckets[b];
    const uint32_t own = layer.microbatches_of(b) * layer.microbatch_size;
    bucket.row_ends.reserve(own);
    const auto first_seat = seats.begin() + static_cast<ptrdiff_t>(size_t{b} * rows);
    // A plan that was cut down to some buckets has no bin at all in the others.
    const bool sized =
        !layer.capacities.empty() &&
        std::any_of(first_seat, first_seat + rows, [](uint32_t bin) { return bin != kNoBin; });
    for (uint32_t row = 0; row < own; ++row) {
      const uint32_t bin = seats[size_t{b} * rows + row];
      if (bin != kNoBin) {
        for (uint32_t s = layer.bin_begin(bin); s < layer.bin_ends[bin]; ++s) {
          bucket.segments.push_back(s);
        }
      }
      bucket.row_ends.push_back(static_cast<uint32_t>(bucket.segments.size()));
      if (sized) {
        OVERLORD_CHECK(bin != kNoBin, "with bins of their own length every row has one");
        bucket.capacities.push_back(layer.capacities[bin]);
        bucket.bins.push_back(bin);
      }
    }
    group_by_source(layer, sources, &bucket);
  }
  add_encoded(plan, sources, index.get());
  for (const Segment& segment : layer.segments) {
    OVERLORD_CHECK(segment.id.source < sources, "segment of an unknown source");
    index->source_present[segment.id.source] = 1;
  }
  return index;
}

}  // namespace overlord::model
