#include "overlord/plan/partition/partition.h"

#include <algorithm>
#include <numeric>

#include "overlord/base/check.h"

namespace overlord::plan {
namespace {

uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// To the nearest; for small numbers.
uint32_t share_of(uint32_t all, uint32_t parts) { return (2 * all + parts) / (2 * parts); }

// Of products of times and rows: what is beyond is as large as can be.
uint64_t times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

struct Sized {        // one source on its way
  uint64_t cost = 0;  // the mean of its cluster
  uint32_t cores = 1, workers = 1, most_workers = 1;
  uint32_t cluster = 0;
  SizeReason reason = SizeReason::kLeast;
};

class Sizing {
 public:
  Sizing(std::span<const SourceLoad> sources, const PartitionRoom& room)
      : sources_(sources), room_(room), sized_(sources.size()) {}

  Result<Partition> make() {
    Partition out;
    out.free_cores = std::max(room_.cores, room_.taken_cores + 1) - room_.taken_cores;
    cluster();
    limit();
    if (room_.rule == SizeRule::kFill) fill(out.free_cores);
    if (room_.rule == SizeRule::kRatio) by_ratio(out.free_cores);
    for (size_t s = 0; s < sized_.size(); ++s) {
      OVERLORD_TRY(const LoaderSize size, settle(s));
      out.sizes.push_back(size);
    }
    OVERLORD_RETURN_IF_ERROR(fit_all(&out));
    for (size_t s = 0; s < sized_.size(); ++s) {
      out.step_ns = std::max(out.step_ns, step_ns(s) / sized_[s].cores);
    }
    return out;
  }

 private:
  // A row's cost is what the paper sorts by; what a step's rows cost says who would be slowest.
  uint64_t step_ns(size_t s) const {
    return times(std::max<uint64_t>(sources_[s].work_ns, 1), sources_[s].rows_per_step);
  }
  uint64_t cost_of(size_t s) const {
    return room_.rule == SizeRule::kRatio ? std::max<uint64_t>(sources_[s].work_ns, 1) : step_ns(s);
  }

  // Stage 1: sources that cost about the same are sized as one, so that a measurement that was a
  // little off moves nothing.
  void cluster() {
    std::vector<size_t> order(sources_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return cost_of(a) > cost_of(b); });
    OVERLORD_CHECK(room_.cluster > 0, "a cluster has somebody in it");
    for (size_t begin = 0; begin < order.size(); begin += room_.cluster) {
      const size_t end = std::min(begin + room_.cluster, order.size());
      uint64_t mean = 0;
      for (size_t i = begin; i < end; ++i) mean += cost_of(order[i]) / (end - begin);
      for (size_t i = begin; i < end; ++i) {
        sized_[order[i]].cost = std::max<uint64_t>(mean, 1);
        sized_[order[i]].cluster = static_cast<uint32_t>(begin / room_.cluster);
      }
    }
  }

  void limit() {
    for (size_t s = 0; s < sized_.size(); ++s) {
      const uint64_t rows = std::max<uint64_t>(sources_[s].rows_per_step, 1);
      sized_[s].most_workers =
          static_cast<uint32_t>(std::min<uint64_t>(room_.source_workers, rows));
    }
  }

  SizeReason limit_of(size_t s) const {
    const bool by_rows = sources_[s].rows_per_step < room_.source_workers;
    return by_rows ? SizeReason::kRowsOfAStep : SizeReason::kSourceWorkers;
  }

  // Stage 2, ours: everybody has a core's worth, more goes to whoever needs longest for a step.
  void fill(uint32_t free_cores) {
    const auto slower = [&](size_t a,
                            size_t b) {  // a / b of what is left to each, without rounding
      const auto left = static_cast<__int128>(sized_[a].cost) * sized_[b].cores;
      const auto right = static_cast<__int128>(sized_[b].cost) * sized_[a].cores;
      return left != right ? left > right : a < b;
    };
    uint64_t used = sized_.size();
    while (used < free_cores) {
      size_t slowest = sized_.size();
      for (size_t s = 0; s < sized_.size(); ++s) {
        if (sized_[s].cores >= sized_[s].most_workers) continue;
        if (slowest == sized_.size() || slower(s, slowest)) slowest = s;
      }
      if (slowest == sized_.size()) break;  // more would idle
      ++sized_[slowest].cores;
      sized_[slowest].reason = SizeReason::kCost;
      ++used;
    }
    for (size_t s = 0; s < sized_.size(); ++s) take_workers(s);
  }

  // Who waits for storage has that many more blocks in work on the same cores.
  void take_workers(size_t s) {
    Sized& one = sized_[s];
    const uint64_t work = std::max<uint64_t>(sources_[s].work_ns, 1);
    const uint64_t wanted = one.cores + ceil_div(times(one.cores, sources_[s].wait_ns), work);
    one.workers = static_cast<uint32_t>(std::min<uint64_t>(wanted, one.most_workers));
    if (one.workers < wanted || one.cores == one.most_workers) one.reason = limit_of(s);
  }

  // Stage 2, the paper's: by the ratio to the cheapest, all less where that is more than there is.
  void by_ratio(uint32_t free_cores) {
    uint64_t cheapest = UINT64_MAX, all = 0;
    for (const Sized& one : sized_) cheapest = std::min(cheapest, one.cost);
    for (size_t s = 0; s < sized_.size(); ++s) {
      Sized& one = sized_[s];
      const uint64_t ratio = (one.cost + cheapest / 2) / cheapest;
      const uint64_t wanted = std::max<uint64_t>(ratio, 1);
      one.cores = static_cast<uint32_t>(std::min<uint64_t>(wanted, one.most_workers));
      one.reason = one.cores < wanted ? limit_of(s)
                   : wanted > 1       ? SizeReason::kCost
                                      : SizeReason::kLeast;
      all += one.cores;
    }
    for (Sized& one : sized_) {
      if (all > free_cores && one.cores > 1) {
        const uint64_t share = uint64_t{one.cores} * free_cores / all;
        one.cores = static_cast<uint32_t>(std::max<uint64_t>(share, 1));
        one.reason = SizeReason::kCores;
      }
      one.workers = one.cores;
    }
  }

  // Stage 3: more loaders share a source's rows, fewer workers have files open. A process where a
  // source has no loader does nothing for it, so loaders come before workers until all have one.
  // All loaders of a source have as many workers, so what they have together is about what it was
  // dealt: always rounded up, thirteen would take sixteen cores, and constructors and planner
  // would miss three.
  Result<LoaderSize> settle(size_t s) const {
    const Sized& one = sized_[s];
    LoaderSize size;
    size.cluster = one.cluster;
    size.reason = one.reason;
    size.loaders = std::max(static_cast<uint32_t>(ceil_div(one.workers, room_.loader_workers)),
                            std::min(one.workers, room_.processes));
    while (true) {
      size.workers = std::max(1U, share_of(one.workers, size.loaders));
      size.loader_bytes = bytes_of(s, size);
      if (room_.loader_bytes == 0 || size.loader_bytes <= room_.loader_bytes) return size;
      if (size.loaders >= one.most_workers) break;
      ++size.loaders;
      size.reason = SizeReason::kMemory;
    }
    return Status(Code::kResource,
                  "source " + sources_[s].name + ": " + std::to_string(size.loaders) +
                      " loaders of one worker each need " + std::to_string(size.loader_bytes) +
                      " bytes, and a loader may have " + std::to_string(room_.loader_bytes) +
                      "; give loaders more memory, or the source smaller blocks");
  }

  uint64_t bytes_of(size_t s, const LoaderSize& size) const {
    return times(sources_[s].state_bytes, size.workers) +
           ceil_div(sources_[s].buffer_bytes, size.loaders);
  }

  // Whoever has most gives workers up, which costs its speed and nobody else's.
  Status fit_all(Partition* out) {
    const auto bytes = [&](size_t s) {
      return times(out->sizes[s].loader_bytes, out->sizes[s].loaders);
    };
    while (true) {
      out->memory_bytes = 0;
      size_t largest = sized_.size();
      for (size_t s = 0; s < sized_.size(); ++s) {
        out->memory_bytes += bytes(s);
        const bool can_give = sized_[s].workers > 1 && sources_[s].state_bytes > 0;
        if (can_give && (largest == sized_.size() || bytes(s) > bytes(largest))) largest = s;
      }
      if (room_.memory_bytes == 0 || out->memory_bytes <= room_.memory_bytes) return {};
      if (largest == sized_.size()) break;
      Sized& one = sized_[largest];
      --one.workers;
      one.cores = std::min(one.cores, one.workers);
      one.reason = SizeReason::kMemory;
      OVERLORD_TRY(out->sizes[largest], settle(largest));
    }
    return {Code::kResource, "loaders of all sources, with a worker each, need " +
                                 std::to_string(out->memory_bytes) + " bytes, and have " +
                                 std::to_string(room_.memory_bytes) +
                                 "; give them more memory, or sources smaller blocks"};
  }

  const std::span<const SourceLoad> sources_;
  const PartitionRoom& room_;
  std::vector<Sized> sized_;
};

}  // namespace

Result<Partition> partition_sources(std::span<const SourceLoad> sources,
                                    const PartitionRoom& room) {
  if (room.cluster == 0 || room.source_workers == 0 || room.loader_workers == 0 ||
      room.processes == 0) {
    return invalid_argument(
        "partition: cluster, source_workers, loader_workers and processes are 1 or more each");
  }
  return Sizing(sources, room).make();
}

}  // namespace overlord::plan
