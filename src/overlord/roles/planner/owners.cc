#include "overlord/roles/planner/owners.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/plan/mix/mix_schedule.h"

namespace overlord::planner {
namespace {

bool carries(const model::StreamState& stream, SourceIndex source) {
  return std::any_of(stream.carried.begin(), stream.carried.end(),
                     [&](const model::Carried& one) { return one.id.source == source; });
}

constexpr uint64_t kRunwaysForeseen = 4;

// The share of every source in what is asked at a step, in thousandths.
std::vector<uint32_t> shares_at(const PlannerJob& job, const PlannerState& state, StepIndex step) {
  const model::StreamState& stream = state.stream();
  const uint64_t epoch =
      plan::epoch_at(job.spec.mixture, job.source_rows, stream.cursors, stream.next_step);
  std::vector<int64_t> weights;
  plan::weights_at(job.spec, {step, 0, epoch, &stream.controller}, &weights);
  const auto sum = std::accumulate(weights.begin(), weights.end(), __int128{0});
  std::vector<uint32_t> shares;
  for (const int64_t weight : weights) {
    shares.push_back(sum == 0 ? 0 : static_cast<uint32_t>(__int128{weight} * 1000 / sum));
  }
  return shares;
}

// Plans that an earlier term has made keep the owners they were published with.
bool may_change(const PlannerJob& job, const PlannerState& state, SourceIndex source) {
  return source < job.slots.size() && !state.failure() && !state.ended() && !state.remaking() &&
         !state.owners_move(source);
}

std::vector<model::OwnerRange> ranges_of(const PlannerJob& job, const PlannerState& state,
                                         SourceIndex source) {
  const std::vector<model::OwnerRange>& ranges = state.owner_ranges(source);
  return ranges.empty() ? std::vector<model::OwnerRange>{{0, job.slots[source]}} : ranges;
}

void journal(protocol::OwnersRecord record, Reaction* out) {
  out->events.push_back(OwnersMove{record.owners.source});
  out->effects.push_back(JournalOwners{std::move(record)});
}

// Written down when it is news.
void advise(const PlannerJob& job, const PlannerState& state, plan::ScaleAdvice advice,
            Reaction* out) {
  if (!may_change(job, state, advice.source)) return;
  const auto known = state.owners().find(advice.source);
  if (known != state.owners().end() && known->second.advised == advice.slots) return;
  model::Versions versions = job.versions;
  versions.owner_map = state.owners_version();
  journal({versions,
           {advice.source, ranges_of(job, state, advice.source)},
           advice.slots,
           std::move(advice.reason)},
          out);
}

}  // namespace

StepIndex steps_foreseen(const PlannerJob& job) {
  return kRunwaysForeseen * (uint64_t{job.runway} + 1);
}

Reaction scale(const PlannerJob& job, const PlannerState& state, uint64_t interval_ns,
               plan::Scaler& scaler) {
  Reaction out;
  OVERLORD_CHECK(interval_ns > 0, "an interval takes some time");
  const std::vector<uint32_t> now = shares_at(job, state, state.next_step());
  std::vector<uint32_t> soon = now;
  for (StepIndex ahead = 1; ahead <= steps_foreseen(job); ++ahead) {
    const std::vector<uint32_t> then = shares_at(job, state, state.next_step() + ahead);
    for (size_t s = 0; s < soon.size(); ++s) soon[s] = std::max(soon[s], then[s]);
  }
  std::vector<plan::IntervalLoad> loads;
  for (SourceIndex s = 0; s < job.slots.size(); ++s) {
    loads.push_back({newest_slots(job, state, s), job.most_slots[s], job.spec.sources[s].workers,
                     state.busy_ns(s) * 1000 / interval_ns, now[s], soon[s]});
  }
  out.events.emplace_back(LoadTaken{});
  for (plan::ScaleAdvice& advice : scaler.next(loads)) {
    if (job.most_slots[advice.source] == job.slots[advice.source])
      continue;  // not declared to grow
    if (job.scaling.advise_only) {
      advise(job, state, advice, &out);
    } else {
      change_slots(job, state, advice.source, advice.slots, std::move(advice.reason), &out);
    }
  }
  return out;
}

uint32_t newest_slots(const PlannerJob& job, const PlannerState& state, SourceIndex source) {
  OVERLORD_CHECK(source < job.slots.size(), "slots of an unknown source");
  const std::vector<model::OwnerRange>& ranges = state.owner_ranges(source);
  return ranges.empty() ? job.slots[source] : ranges.back().slots;
}

void change_slots(const PlannerJob& job, const PlannerState& state, SourceIndex source,
                  uint32_t slots, std::string reason, Reaction* out) {
  if (!may_change(job, state, source)) return;
  OVERLORD_CHECK(job.most_slots[source] >= job.slots[source], "who reads at the start is there");
  slots = std::clamp(slots, 1u, job.most_slots[source]);
  if (slots == newest_slots(job, state, source)) return;
  std::vector<model::OwnerRange> ranges = ranges_of(job, state, source);
  const uint64_t first = std::max(state.grant(source), ranges.back().first_window);
  if (ranges.back().first_window == first) ranges.pop_back();
  ranges.push_back({first, slots});
  OVERLORD_CHECK(ranges.size() == 1 || ranges[ranges.size() - 2].first_window < first,
                 "a change counts behind those before it");
  model::Versions versions = job.versions;
  versions.owner_map = state.owners_version() + 1;
  journal({versions, {source, std::move(ranges)}, 0, std::move(reason)}, out);
}

std::vector<protocol::OwnersRecord> forgettable(const PlannerState& state,
                                                const model::StreamState& base) {
  std::vector<protocol::OwnersRecord> out;
  for (const auto& [source, record] : state.owners()) {
    if (record.owners.ranges.size() < 2 || carries(base, source)) continue;
    OVERLORD_CHECK(source < base.cursors.size(), "owners of an unknown source");
    const std::pair cursor(base.cursors[source].pass, base.cursors[source].position);
    protocol::OwnersRecord less = record;
    std::vector<model::OwnerRange>& ranges = less.owners.ranges;
    const auto passed = [&](const model::OwnerRange& range) {
      const auto starts = state.range_starts(source, range.first_window);
      return starts && *starts <= cursor;
    };
    while (ranges.size() > 1 && passed(ranges[1])) ranges.erase(ranges.begin());
    if (ranges.size() < record.owners.ranges.size()) out.push_back(std::move(less));
  }
  return out;
}

}  // namespace overlord::planner
