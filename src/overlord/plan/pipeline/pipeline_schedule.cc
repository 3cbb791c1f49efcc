#include "overlord/plan/pipeline/pipeline_schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "overlord/base/check.h"
#include "overlord/base/fixed_point.h"

namespace overlord::plan {
namespace {

constexpr int64_t kPermille = 1000;
constexpr int64_t kMostBackwardPermille = 1'000'000;
constexpr uint64_t kMostRuns = uint64_t{1} << 24;
// Past this many places the largest microbatch is a small part of the whole, and looking for the
// chains through every place would take longer than ordering.
constexpr uint32_t kMostAnchors = 64;
// How much an anchor outweighs the others when its chains are looked for.
constexpr int64_t kAnchorWeights[] = {4, 1000};

}  // namespace

Result<PipelineSchedule> PipelineSchedule::make(const PipelineShape& shape, uint32_t microbatches) {
  if (shape.stages == 0) return invalid_argument("stages: starts at 1, got 0");
  if (shape.virtual_stages == 0) return invalid_argument("virtual_stages: starts at 1, got 0");
  if (shape.backward_permille < 0 || shape.backward_permille > kMostBackwardPermille) {
    return invalid_argument("backward_permille: 0 to 1000000, got " +
                            std::to_string(shape.backward_permille));
  }
  if (microbatches == 0) return invalid_argument("a pipeline needs a microbatch, has none");
  if (shape.virtual_stages > 1 && microbatches % shape.stages != 0) {
    return invalid_argument("microbatches: interleaved 1F1B needs a multiple of the " +
                            std::to_string(shape.stages) + " stages, got " +
                            std::to_string(microbatches));
  }
  const Int128 runs = Int128{2} * microbatches * shape.virtual_stages * shape.stages;
  if (runs > Int128{kMostRuns}) {
    return invalid_argument("stages x virtual_stages x microbatches: at most 8388608, got " +
                            std::to_string(static_cast<uint64_t>(runs / 2)));
  }
  PipelineSchedule schedule;
  schedule.shape_ = shape;
  schedule.microbatches_ = microbatches;
  schedule.sort_runs(schedule.unsorted_runs());
  return schedule;
}

uint32_t PipelineSchedule::warm_up(uint32_t stage) const {
  OVERLORD_CHECK(stage < shape_.stages, "a stage of the pipeline");
  const uint64_t behind = shape_.stages - 1 - stage;
  const uint64_t forwards = shape_.virtual_stages == 1
                                ? behind
                                : 2 * behind + uint64_t{shape_.virtual_stages - 1} * shape_.stages;
  return static_cast<uint32_t>(
      std::min<uint64_t>(forwards, uint64_t{microbatches_} * shape_.virtual_stages));
}

// Forward k of stage s is run 2 (s turns + k), backward k the one after it. Turn k is the same
// microbatch and part on every stage; backwards take the parts from the last to the first.
std::vector<PipelineSchedule::Run> PipelineSchedule::unsorted_runs() const {
  const uint32_t stages = shape_.stages;
  const uint32_t parts = shape_.virtual_stages;
  const uint32_t turns = microbatches_ * parts;
  const auto forward = [turns](uint32_t stage, uint32_t k) { return 2 * (stage * turns + k) + 1; };
  const auto backward = [turns](uint32_t stage, uint32_t k) { return 2 * (stage * turns + k) + 2; };
  std::vector<Run> runs(size_t{2} * turns * stages);
  for (uint32_t s = 0; s < stages; ++s) {
    const uint32_t warm = warm_up(s);
    for (uint32_t k = 0; k < turns; ++k) {
      // Plain, a group is all microbatches; interleaved, `stages` of them go through all parts.
      const uint32_t round = parts == 1 ? 0 : k % (stages * parts);
      const uint32_t place = parts == 1 ? k : k / (stages * parts) * stages + k % stages;
      const bool first_part = round < stages;
      Run& ahead = runs[forward(s, k) - 1];
      ahead.time = 2 * place;
      if (k > warm) {
        ahead.after_stage = backward(s, k - 1 - warm);
      } else if (k > 0) {
        ahead.after_stage = forward(s, k - 1);
      }
      if (s > 0) {
        ahead.after_microbatch = forward(s - 1, k);
      } else if (!first_part) {
        ahead.after_microbatch = forward(stages - 1, k - stages);
      }
      Run& back = runs[backward(s, k) - 1];
      back.time = 2 * place + 1;
      if (k < turns - warm) {
        back.after_stage = forward(s, k + warm);
      } else {
        back.after_stage = k == 0 ? forward(s, turns - 1) : backward(s, k - 1);
      }
      if (s + 1 < stages) {
        back.after_microbatch = backward(s + 1, k);
      } else if (!first_part) {
        back.after_microbatch = backward(0, k - stages);
      } else {
        back.after_microbatch = forward(s, k + (parts - 1) * (parts == 1 ? 0 : stages));
      }
    }
  }
  return runs;
}

// Sorts by when runs would begin if all microbatches were equal: then the runs of a place lie
// together, and a change at a late place leaves most of them as they were.
void PipelineSchedule::sort_runs(std::vector<Run> runs) {
  const auto count = static_cast<uint32_t>(runs.size());
  std::vector<uint32_t> waits(count), next_heads(count + 1, 0);
  for (uint32_t n = 0; n < count; ++n) {
    for (const uint32_t before : {runs[n].after_stage, runs[n].after_microbatch}) {
      waits[n] += before != 0;
      ++next_heads[before];
    }
  }
  std::exclusive_scan(next_heads.begin(), next_heads.end(), next_heads.begin(), 0u);
  std::vector<uint32_t> next(size_t{2} * count), fill = next_heads;
  for (uint32_t n = 0; n < count; ++n) {
    next[fill[runs[n].after_stage]++] = n;
    next[fill[runs[n].after_microbatch]++] = n;
  }
  std::vector<uint32_t> sorted;
  sorted.reserve(count);
  for (uint32_t n = 0; n < count; ++n) {
    if (waits[n] == 0) sorted.push_back(n);
  }
  std::vector<uint64_t> begins(count, 0);
  for (size_t at = 0; at < sorted.size(); ++at) {
    const uint32_t done = sorted[at];
    const uint64_t end = begins[done] + 1 + runs[done].time % 2;
    for (uint32_t i = next_heads[done + 1]; i < fill[done + 1]; ++i) {
      begins[next[i]] = std::max(begins[next[i]], end);
      if (--waits[next[i]] == 0) sorted.push_back(next[i]);
    }
  }
  OVERLORD_CHECK(sorted.size() == count, "the runs of a pipeline wait for each other in a ring");
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&begins](uint32_t a, uint32_t b) { return begins[a] < begins[b]; });

  std::vector<uint32_t> index(count + 1, 0);
  for (uint32_t at = 0; at < count; ++at) index[sorted[at] + 1] = at + 1;
  runs_.resize(count);
  first_run_.assign(microbatches_, count);
  for (uint32_t at = 0; at < count; ++at) {
    const Run& run = runs[sorted[at]];
    runs_[at] = {index[run.after_stage], index[run.after_microbatch], run.time};
    OVERLORD_CHECK(runs_[at].after_stage <= at && runs_[at].after_microbatch <= at,
                   "a run comes after those it waits for");
    uint32_t& first = first_run_[run.time / 2];
    first = std::min(first, at);
  }
  for (uint32_t place = microbatches_ - 1; place > 0; --place) {
    first_run_[place - 1] = std::min(first_run_[place - 1], first_run_[place]);
  }
}

Result<RunTimes> PipelineSchedule::run_times(std::span<const int64_t> costs) const {
  if (costs.size() != microbatches_) {
    return invalid_argument("costs: one per microbatch, " + std::to_string(microbatches_) +
                            ", got " + std::to_string(costs.size()));
  }
  const Int128 parts = shape_.virtual_stages;
  RunTimes times;
  times.reserve(2 * costs.size());
  Int128 sum = 0;
  for (const int64_t cost : costs) {
    if (cost < 0) return invalid_argument("costs: at least 0, got " + std::to_string(cost));
    const Int128 forward = ceil_div(cost, parts);
    const Int128 backward = ceil_div(Int128{cost} * shape_.backward_permille, parts * kPermille);
    sum += forward + backward;
    if (!fits_int64(sum * parts * shape_.stages)) {
      return invalid_argument("costs: a step of this pipeline takes over 63 bits");
    }
    times.push_back(static_cast<int64_t>(forward));
    times.push_back(static_cast<int64_t>(backward));
  }
  return times;
}

int64_t PipelineSchedule::run(std::span<const int64_t> times, uint32_t first,
                              std::span<int64_t> ends) const {
  OVERLORD_CHECK(times.size() == size_t{2} * microbatches_ && ends.size() == runs_.size() + 1,
                 "a time for every run");
  const Run* const runs = runs_.data();
  const int64_t* const time = times.data();
  int64_t* const end = ends.data();
  const auto count = static_cast<uint32_t>(runs_.size());
  for (uint32_t n = first; n < count; ++n) {
    const Run run = runs[n];
    end[n + 1] = std::max(end[run.after_stage], end[run.after_microbatch]) + time[run.time];
  }
  return end[count];
}

void PipelineSchedule::critical_chain(std::span<const int64_t> ends, Prefer prefer,
                                      std::span<int32_t> chain) const {
  std::fill(chain.begin(), chain.end(), 0);
  for (uint32_t at = runs(); at != 0;) {
    const Run& run = runs_[at - 1];
    OVERLORD_CHECK(run.after_stage < at && run.after_microbatch < at,
                   "a chain goes back to the start");
    ++chain[run.time];
    const int64_t stage = ends[run.after_stage];
    const int64_t microbatch = ends[run.after_microbatch];
    const bool by_stage = stage > microbatch || (stage == microbatch && prefer == Prefer::kStage);
    at = by_stage ? run.after_stage : run.after_microbatch;
    // Runs that take no time end with the start; the chain goes on to whatever is before them.
    if (at == 0) at = by_stage ? run.after_microbatch : run.after_stage;
  }
}

MakespanBound::MakespanBound(const PipelineSchedule& schedule)
    : shape_(schedule.shape()), places_(schedule.microbatches()) {
  RunTimes times;
  for (uint32_t i = 0; i < places_; ++i) {
    times.push_back(kPermille);
    times.push_back(shape_.backward_permille);
  }
  std::vector<int64_t> ends(size_t{schedule.runs()} + 1, 0);
  schedule.run(times, 0, ends);
  keep_chains(schedule, ends, &even_chains_);
  if (places_ > kMostAnchors) return;
  anchor_chains_.resize(places_);
  for (uint32_t i = 0; i < places_; ++i) {
    for (const int64_t weight : kAnchorWeights) {
      times[2 * i] = kPermille * weight;
      times[2 * i + 1] = shape_.backward_permille * weight;
      schedule.run(times, schedule.first_run(i), ends);
      keep_chains(schedule, ends, &anchor_chains_[i]);
    }
    times[2 * i] = kPermille;
    times[2 * i + 1] = shape_.backward_permille;
    schedule.run(times, schedule.first_run(i), ends);
  }
}

void MakespanBound::keep_chains(const PipelineSchedule& schedule, std::span<const int64_t> ends,
                                std::vector<WeighedChain>* chains) const {
  using Prefer = PipelineSchedule::Prefer;
  Chain chain(size_t{2} * places_);
  for (const Prefer prefer : {Prefer::kStage, Prefer::kMicrobatch}) {
    schedule.critical_chain(ends, prefer, chain);
    WeighedChain& weighed = chains->emplace_back();
    for (uint32_t i = 0; i < places_; ++i) {
      weighed.by_place.push_back(chain[2 * i] * kPermille +
                                 chain[2 * i + 1] * shape_.backward_permille);
    }
    weighed.heaviest_first.resize(places_);
    std::iota(weighed.heaviest_first.begin(), weighed.heaviest_first.end(), 0u);
    std::stable_sort(
        weighed.heaviest_first.begin(), weighed.heaviest_first.end(),
        [&weighed](uint32_t a, uint32_t b) { return weighed.by_place[a] > weighed.by_place[b]; });
  }
}

int64_t MakespanBound::of(std::span<const int64_t> costs) const {
  OVERLORD_CHECK(costs.size() == places_, "one cost for each microbatch");
  std::vector<int64_t> ascending(costs.begin(), costs.end());
  std::sort(ascending.begin(), ascending.end());
  const int64_t largest = ascending.back();
  // The least a chain can cost with the largest microbatch at `anchor`, or anywhere: the lighter a
  // microbatch, the heavier its place.
  const auto least = [&](const WeighedChain& chain, uint32_t anchor) {
    Int128 sum = anchor < places_ ? Int128{chain.by_place[anchor]} * largest : Int128{0};
    size_t next = 0;
    for (const uint32_t place : chain.heaviest_first) {
      if (place != anchor) sum += Int128{chain.by_place[place]} * ascending[next++];
    }
    return ceil_div(sum, Int128{kPermille} * shape_.virtual_stages);
  };
  Int128 bound = 0;
  for (const WeighedChain& chain : even_chains_) bound = std::max(bound, least(chain, places_));
  Int128 anchored = bound;
  for (uint32_t anchor = 0; anchor < anchor_chains_.size(); ++anchor) {
    Int128 here = bound;
    for (const WeighedChain& chain : even_chains_) here = std::max(here, least(chain, anchor));
    for (const WeighedChain& chain : anchor_chains_[anchor]) {
      here = std::max(here, least(chain, anchor));
    }
    anchored = anchor == 0 ? here : std::min(anchored, here);
  }
  OVERLORD_CHECK(anchored >= bound && fits_int64(anchored), "an anchor only tightens the bound");
  return static_cast<int64_t>(anchored);
}

Result<int64_t> makespan(const PipelineShape& shape, std::span<const int64_t> costs,
                         std::span<const uint32_t> order) {
  if (order.size() != costs.size()) {
    return invalid_argument("order: names each microbatch once, has " +
                            std::to_string(order.size()) + " of " + std::to_string(costs.size()));
  }
  OVERLORD_TRY(const std::vector<int64_t> only, makespans(shape, costs, order));
  return only.front();
}

Result<std::vector<int64_t>> makespans(const PipelineShape& shape, std::span<const int64_t> costs,
                                       std::span<const uint32_t> orders) {
  const size_t places = costs.size();
  if (places > std::numeric_limits<uint32_t>::max()) {
    return invalid_argument("costs: too many microbatches, " + std::to_string(places));
  }
  OVERLORD_TRY(const PipelineSchedule schedule,
               PipelineSchedule::make(shape, static_cast<uint32_t>(places)));
  OVERLORD_TRY(const RunTimes times, schedule.run_times(costs));
  if (orders.size() % places != 0) {
    return invalid_argument("orders: " + std::to_string(places) + " microbatches each, has " +
                            std::to_string(orders.size()) + " in all");
  }
  std::vector<int64_t> ends(size_t{schedule.runs()} + 1, 0), out;
  RunTimes by_place(times.size());
  std::vector<size_t> seen(places, 0);  // in which order, counted from 1
  for (size_t first = 0; first < orders.size(); first += places) {
    for (size_t place = 0; place < places; ++place) {
      const uint32_t microbatch = orders[first + place];
      if (microbatch >= places || seen[microbatch] == out.size() + 1) {
        return invalid_argument("order: names each microbatch once, got a wrong or second " +
                                std::to_string(microbatch));
      }
      seen[microbatch] = out.size() + 1;
      by_place[2 * place] = times[2 * microbatch];
      by_place[2 * place + 1] = times[2 * microbatch + 1];
    }
    out.push_back(schedule.run(by_place, 0, ends));
  }
  return out;
}

}  // namespace overlord::plan
