#include "overlord/roles/planner/owners.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/plan/partition/scaler.h"

namespace overlord::planner {
namespace {

bool carries(const model::StreamState& stream, SourceIndex source) {
  return std::any_of(stream.carried.begin(), stream.carried.end(),
                     [&](const model::Carried& one) { return one.id.source == source; });
}

constexpr uint64_t kRunwaysForeseen = 4;

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

bool is_news(const PlannerState& state, SourceIndex source, uint32_t advised) {
  const auto known = state.owners().find(source);
  return known == state.owners().end() || known->second.advised != advised;
}

}  // namespace

StepIndex steps_foreseen(const PlannerJob& job) {
  return kRunwaysForeseen * (uint64_t{job.runway} + 1);
}

uint32_t newest_slots(const PlannerJob& job, const PlannerState& state, SourceIndex source) {
  OVERLORD_CHECK(source < job.slots.size(), "slots of an unknown source");
  const std::vector<model::OwnerRange>& ranges = state.owner_ranges(source);
  return ranges.empty() ? job.slots[source] : ranges.back().slots;
}

model::ScaleInputs scale_inputs(const PlannerJob& job, const PlannerState& state,
                                SourceIndex source, model::ScaleRule rule) {
  model::ScaleInputs inputs;
  inputs.rule = rule;
  inputs.slots = newest_slots(job, state, source);
  inputs.most_slots = job.most_slots[source];
  inputs.workers = job.spec.sources[source].workers;
  return inputs;
}

std::vector<protocol::OwnersRecord> owners_at_start(const PlannerJob& job,
                                                    const PlannerState& state) {
  std::vector<protocol::OwnersRecord> out;
  for (SourceIndex s = 0; s < job.slots.size(); ++s) {
    if (job.spec.sources[s].most_loaders == 0) continue;
    model::ScaleInputs inputs = scale_inputs(job, state, s, model::ScaleRule::kWish);
    inputs.wished = job.slots[s];
    out.push_back({job.versions, {s, {{0, job.slots[s]}}}, 0, "at the start", std::move(inputs)});
  }
  return out;
}

void change_slots(const PlannerJob& job, const PlannerState& state, SourceIndex source,
                  model::ScaleInputs inputs, std::string reason, Reaction* out) {
  if (!may_change(job, state, source)) return;
  OVERLORD_CHECK(job.most_slots[source] >= job.slots[source], "who reads at the start is there");
  const uint32_t slots = plan::decide(inputs).slots;
  OVERLORD_CHECK(slots > 0, "somebody reads a source");
  if (slots == newest_slots(job, state, source)) return;
  std::vector<model::OwnerRange> ranges = ranges_of(job, state, source);
  model::Versions versions = job.versions;
  versions.owner_map = state.owners_version();
  uint32_t advised = 0;
  if (job.scaling.advise_only && inputs.rule != model::ScaleRule::kWish) {
    if (!is_news(state, source, slots)) return;
    advised = slots;
  } else {
    const uint64_t first = std::max(state.grant(source), ranges.back().first_window);
    if (ranges.back().first_window == first) ranges.pop_back();
    ranges.push_back({first, slots});
    OVERLORD_CHECK(ranges.size() == 1 || ranges[ranges.size() - 2].first_window < first,
                   "a change counts behind those before it");
    ++versions.owner_map;
  }
  out->events.push_back(OwnersMove{source});
  out->effects.push_back(JournalOwners{
      {versions, {source, std::move(ranges)}, advised, std::move(reason), std::move(inputs)}});
}

void wish_slots(const PlannerJob& job, const PlannerState& state, SourceIndex source,
                uint32_t slots, std::string reason, Reaction* out) {
  if (source >= job.slots.size()) return;
  model::ScaleInputs inputs = scale_inputs(job, state, source, model::ScaleRule::kWish);
  inputs.wished = slots;
  change_slots(job, state, source, std::move(inputs), std::move(reason), out);
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
