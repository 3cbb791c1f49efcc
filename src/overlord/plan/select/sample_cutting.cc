#include "overlord/plan/select/sample_cutting.h"

#include <algorithm>
#include <string>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"

namespace overlord::plan {
namespace {

struct Range {  // of segments
  uint32_t begin = 0;
  uint32_t end = 0;
};

// What is dealt at once: a segment, or a group of them.
struct Atoms {
  std::vector<uint32_t> of;  // of every segment
  std::vector<int64_t> costs, sizes;
};

Atoms atoms_of(std::span<const model::Segment> segments, std::span<const int64_t> costs,
               std::span<const int64_t> sizes) {
  Atoms atoms;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (i == 0 || (segments[i].flags & model::Segment::kJoined) == 0) {
      atoms.costs.push_back(0);
      atoms.sizes.push_back(0);
    }
    atoms.of.push_back(static_cast<uint32_t>(atoms.costs.size() - 1));
    atoms.costs.back() += costs[i];
    atoms.sizes.back() += sizes[i];
  }
  return atoms;
}

// The same of atoms, none of which crosses a substep.
std::vector<Range> in_atoms(std::vector<Range> ranges, const Atoms& atoms) {
  for (Range& range : ranges) {
    if (range.begin == range.end) continue;
    range = {atoms.of[range.begin], atoms.of[range.end - 1] + 1};
  }
  return ranges;
}

std::vector<Range> substep_ranges(std::span<const uint32_t> bin_ends, uint32_t substeps) {
  OVERLORD_CHECK(substeps > 0 && bin_ends.size() % substeps == 0,
                 "substeps have equally many sequences");
  const size_t each = bin_ends.size() / substeps;
  std::vector<Range> ranges;
  for (uint32_t s = 0; s < substeps; ++s) {
    ranges.push_back({s == 0 ? 0 : bin_ends[s * each - 1], bin_ends[(s + 1) * each - 1]});
  }
  return ranges;
}

// Microbatches of even cost within the limit; nothing: too few of them.
Result<std::vector<uint32_t>> into_microbatches(model::BalanceMethod method, const CutShape& shape,
                                                uint32_t rounds, std::span<const int64_t> costs,
                                                std::span<const int64_t> sizes,
                                                Balancer* balancer) {
  BalanceProblem problem;
  problem.costs = costs;
  problem.sizes = sizes;
  problem.bins = shape.consumers * rounds;
  problem.size_limit = shape.limit;
  OVERLORD_TRY(Balanced balanced, balancer->run(method, problem));
  if (!balanced.left.empty()) return std::vector<uint32_t>();
  return std::move(balanced.bin_of);
}

// Seats of the microbatches: consumer * rounds + number, so that consumers have even work and
// equally many.
Result<std::vector<uint32_t>> to_consumers(model::BalanceMethod method, uint32_t consumers,
                                           uint32_t rounds, std::span<const int64_t> costs,
                                           std::span<const uint32_t> microbatch_of,
                                           Balancer* balancer) {
  OVERLORD_CHECK(microbatch_of.size() == costs.size(), "every sample has a microbatch");
  std::vector<int64_t> loads(size_t{consumers} * rounds, 0);
  for (size_t i = 0; i < costs.size(); ++i) loads[microbatch_of[i]] += costs[i];
  BalanceProblem problem;
  problem.costs = loads;
  problem.bins = consumers;
  problem.count_limit = rounds;
  problem.equal_count = true;
  OVERLORD_TRY(const Balanced balanced, balancer->run(method, problem));
  std::vector<uint32_t> filled(consumers, 0);
  std::vector<uint32_t> seats(loads.size());
  for (uint32_t m = 0; m < loads.size(); ++m) {
    const uint32_t consumer = balanced.bin_of[m];
    OVERLORD_CHECK(consumer < consumers && filled[consumer] < rounds, "a microbatch has a seat");
    seats[m] = consumer * rounds + filled[consumer]++;
  }
  return seats;
}

// By atom: consumer * rounds + microbatch within its substep; empty: `rounds` are too few.
Result<std::vector<uint32_t>> deal(model::BalanceMethod method, const CutShape& shape,
                                   uint32_t rounds, std::span<const Range> ranges,
                                   std::span<const int64_t> costs, std::span<const int64_t> sizes,
                                   Balancer* balancer) {
  std::vector<uint32_t> seat_of(costs.size());
  for (const Range& range : ranges) {
    const size_t count = range.end - range.begin;
    if (count == 0) continue;
    const auto own = costs.subspan(range.begin, count);
    OVERLORD_TRY(
        const std::vector<uint32_t> microbatch_of,
        into_microbatches(method, shape, rounds, own, sizes.subspan(range.begin, count), balancer));
    if (microbatch_of.empty()) return std::vector<uint32_t>();
    OVERLORD_TRY(const std::vector<uint32_t> seats,
                 to_consumers(method, shape.consumers, rounds, own, microbatch_of, balancer));
    for (size_t i = 0; i < count; ++i) seat_of[range.begin + i] = seats[microbatch_of[i]];
  }
  return seat_of;
}

}  // namespace

Result<CutStep> cut_samples(model::BalanceMethod method, const CutShape& shape,
                            std::span<const model::Segment> segments,
                            std::span<const int64_t> costs, std::span<const uint32_t> bin_ends,
                            Balancer* balancer) {
  std::vector<int64_t> sizes;
  for (const model::Segment& segment : segments) {
    sizes.push_back(static_cast<int64_t>(round_up(segment.count, shape.align)));
    if (sizes.back() > shape.limit) {
      return invalid_argument("balance: a sample of " + std::to_string(segment.count) +
                              " tokens is over the microbatch limit of " +
                              std::to_string(shape.limit));
    }
  }
  const std::vector<Range> ranges = substep_ranges(bin_ends, shape.substeps);
  const Atoms atoms = atoms_of(segments, costs, sizes);
  const std::vector<Range> atom_ranges = in_atoms(ranges, atoms);
  uint32_t rounds = shape.rounds;
  std::vector<uint32_t> seat_of;
  for (;; rounds += shape.more) {  // ends: with a microbatch for every sample all fit
    OVERLORD_TRY(seat_of,
                 deal(method, shape, rounds, atom_ranges, atoms.costs, atoms.sizes, balancer));
    if (!seat_of.empty() || segments.empty()) break;
  }
  CutStep cut;
  cut.microbatches = rounds * shape.substeps;
  std::vector<std::vector<uint32_t>> bins(size_t{shape.consumers} * cut.microbatches);
  for (uint32_t substep = 0; substep < shape.substeps; ++substep) {
    for (uint32_t i = ranges[substep].begin; i < ranges[substep].end; ++i) {
      const uint32_t seat = seat_of[atoms.of[i]];
      const uint32_t consumer = seat / rounds;
      const uint32_t number = seat % rounds;
      bins[size_t{consumer} * cut.microbatches + substep * rounds + number].push_back(i);
    }
  }
  for (const std::vector<uint32_t>& bin : bins) {
    int64_t length = 0;
    for (const uint32_t i : bin) {
      cut.segments.push_back(segments[i]);
      cut.costs.push_back(costs[i]);
      cut.from.push_back(i);
      length += sizes[i];
    }
    OVERLORD_CHECK(length <= shape.limit, "a microbatch keeps to its limit");
    cut.bin_ends.push_back(static_cast<uint32_t>(cut.segments.size()));
    cut.capacities.push_back(static_cast<uint32_t>(
        round_up(static_cast<uint64_t>(std::max<int64_t>(length, 1)), shape.unit)));
  }
  OVERLORD_CHECK(cut.segments.size() == segments.size(), "every sample is dealt once");
  return cut;
}

}  // namespace overlord::plan
