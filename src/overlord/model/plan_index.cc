#include "overlord/model/plan_index.h"

#include <algorithm>

#include "overlord/base/check.h"
#include "overlord/model/hdp_layer.h"

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

}  // namespace

std::shared_ptr<PlanIndex> PlanIndex::make(const Plan& plan, uint32_t sources) {
  auto index = std::make_shared<PlanIndex>();
  const Layer& layer = plan.layers.front();
  for (const Segment& segment : layer.segments) {
    OVERLORD_CHECK(segment.id.source < sources, "segment of an unknown source");
  }
  const std::vector<uint32_t> seats = seat_bins(layer);
  const uint32_t rows = layer.microbatches * layer.microbatch_size;
  const bool renumbered = layer.hdp && !layer.hdp->bins.empty();
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
        bucket.bins.push_back(renumbered ? layer.hdp->bins[bin] : bin);
      }
    }
  }
  return index;
}

}  // namespace overlord::model
