#include "overlord/plan/partition/scaler.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::plan {
namespace {

using model::ScaleInputs;
using model::ScaleRule;

// Workers are to be busy for this part of the time: what is left carries a step that needs more.
constexpr uint64_t kTargetMilli = 700;
// Busier than this nobody knows how much more it would take.
constexpr uint64_t kFullMilli = 900;
// Fewer slots only when so many intervals in a row wanted no more than this part of what there is.
constexpr size_t kPatience = 10;
constexpr uint64_t kShrinkMilli = 600;
// The rule of the paper, which gives no numbers: against an even share of all sources.
constexpr uint64_t kAboveMilli = 1500, kBelowMilli = 500;
constexpr uint32_t kInARow = 3;
constexpr uint64_t kNewestMilli = 300;  // weight of the newest in a moving average

std::string in_tenths(uint64_t milli) {
  return std::to_string(milli / 1000) + "." + std::to_string(milli / 100 % 10);
}

std::string slots_text(uint32_t slots) {
  return std::to_string(slots) + (slots == 1 ? " slot" : " slots");
}

uint64_t scaled(uint64_t value, uint64_t by, uint64_t over) {
  const auto wide = static_cast<unsigned __int128>(value) * by / std::max<uint64_t>(1, over);
  return static_cast<uint64_t>(std::min<unsigned __int128>(wide, UINT64_MAX / 4));
}

// So many that they are busy for no more than they should be.
uint32_t slots_for(uint64_t busy_milli, uint64_t busy_part_milli, const ScaleInputs& in) {
  const uint64_t of_a_slot = busy_part_milli * in.workers;
  const uint64_t slots = busy_milli / of_a_slot + (busy_milli % of_a_slot != 0 ? 1 : 0);
  return static_cast<uint32_t>(std::clamp<uint64_t>(slots, 1, std::max(in.most_slots, in.slots)));
}

ScaleDecision by_load(const ScaleInputs& in) {
  const uint64_t workers = uint64_t{in.slots} * in.workers;
  uint64_t need = in.busy_milli;
  if (in.busy_milli >= kFullMilli * workers) need = std::max(need, 2 * kTargetMilli * workers);
  const bool moves = in.averaged ? in.share_soon != in.share_now : in.share_soon > in.share_now;
  if (in.share_now > 0 && moves) need = scaled(need, in.share_soon, in.share_now);
  ScaleDecision out{in.slots, slots_for(need, kTargetMilli, in), {}};
  out.reason = in_tenths(in.busy_milli) + " of " + std::to_string(workers) +
               " workers busy, asked for " + std::to_string(in.share_now) + " thousandths and " +
               std::to_string(in.share_soon) + (in.averaged ? " on average: " : " soon: ") +
               slots_text(out.wanted);
  if (out.wanted > in.slots) {
    out.slots = std::min(out.wanted, in.most_slots);
    return out;
  }
  uint32_t most = out.wanted;
  for (const uint32_t before : in.wanted) most = std::max(most, before);
  const bool patient = in.wanted.size() + 1 >= kPatience;
  if (patient && uint64_t{most} * 1000 <= kShrinkMilli * in.slots) out.slots = most;
  return out;
}

ScaleDecision by_share(const ScaleInputs& in) {
  const uint64_t of_even = in.average_share * in.sources;  // thousandths of an even share
  ScaleDecision out{in.slots, in.slots,
                    "its moving average is " + in_tenths(of_even) + " of an even share"};
  if (of_even > kAboveMilli && in.above + 1 >= kInARow && in.slots < in.most_slots) ++out.slots;
  if (of_even < kBelowMilli && in.below + 1 >= kInARow && in.slots > 1) --out.slots;
  return out;
}

// More before a turn, never fewer: whether they are too many is seen when it has come.
ScaleDecision by_foresight(const ScaleInputs& in) {
  ScaleDecision out{in.slots, in.slots, {}};
  if (in.work_ns == 0 || in.all_work_ns == 0) return out;
  const std::string asks = "step " + std::to_string(in.step) + " asks " +
                           std::to_string(in.share_soon) + " thousandths of it, after " +
                           std::to_string(in.share_now) + " now: ";
  if (in.step_ns > 0) {
    out.wanted = slots_for(scaled(in.work_ns, 1000, in.step_ns), kTargetMilli, in);
    out.reason = asks + std::to_string(in.work_ns / 1000) + " us of work in steps of " +
                 std::to_string(in.step_ns / 1000) + " us: " + slots_text(out.wanted);
  } else {
    const uint64_t part_milli = scaled(in.work_ns, 1000, in.all_work_ns);
    out.wanted = slots_for(part_milli * in.room, 1000, in);
    out.reason = asks + std::to_string(part_milli) + " thousandths of a step's work, and no step " +
                 "has been timed yet: " + slots_text(out.wanted);
  }
  out.slots = std::max(in.slots, std::min(out.wanted, in.most_slots));
  return out;
}

}  // namespace

ScaleDecision decide(const ScaleInputs& inputs) {
  OVERLORD_CHECK(inputs.slots > 0 && inputs.workers > 0, "a source has somebody who reads it");
  switch (inputs.rule) {
    case ScaleRule::kLoad:
      return by_load(inputs);
    case ScaleRule::kShare:
      return by_share(inputs);
    case ScaleRule::kForesight:
      return by_foresight(inputs);
    case ScaleRule::kWish:
      break;
  }
  const uint32_t slots = std::clamp(inputs.wished, 1u, std::max(1u, inputs.most_slots));
  return {slots, slots, {}};
}

std::vector<ScaleAdvice> Scaler::next(const std::vector<IntervalLoad>& loads) {
  memory_.resize(loads.size());
  std::vector<ScaleAdvice> out;
  for (SourceIndex s = 0; s < loads.size(); ++s) {
    ScaleInputs inputs = inputs_of(loads[s], loads.size(), &memory_[s]);
    ScaleDecision decision = decide(inputs);
    remember(inputs, decision, &memory_[s]);
    if (decision.slots != inputs.slots) {
      out.push_back({s, std::move(inputs), std::move(decision)});
    }
  }
  return out;
}

ScaleInputs Scaler::inputs_of(const IntervalLoad& load, size_t sources, Memory* memory) const {
  const uint64_t before = memory->average_share.value_or(load.share_now);
  const uint64_t average = (before * (1000 - kNewestMilli) + load.share_now * kNewestMilli) / 1000;
  memory->average_share = average;
  ScaleInputs in;
  in.rule = policy_ == model::ScalingPolicy::kShare ? ScaleRule::kShare : ScaleRule::kLoad;
  in.slots = load.slots;
  in.most_slots = load.most_slots;
  in.workers = load.workers;
  in.share_now = load.share_now;
  in.averaged = load.follows_losses;
  in.share_soon = load.follows_losses ? static_cast<uint32_t>(average) : load.share_soon;
  if (in.rule == ScaleRule::kLoad) {
    in.busy_milli = load.busy_milli;
    in.wanted.assign(memory->wanted.begin(), memory->wanted.end());
  } else {
    in.sources = static_cast<uint32_t>(sources);
    in.average_share = average;
    in.above = memory->above;
    in.below = memory->below;
  }
  return in;
}

void Scaler::remember(const ScaleInputs& inputs, const ScaleDecision& decision,
                      Memory* memory) const {
  if (inputs.rule == ScaleRule::kLoad) {
    memory->wanted.push_back(decision.wanted);
    if (memory->wanted.size() >= kPatience) memory->wanted.pop_front();
    return;
  }
  const uint64_t of_even = inputs.average_share * inputs.sources;
  memory->above = of_even > kAboveMilli ? memory->above + 1 : 0;
  memory->below = of_even < kBelowMilli ? memory->below + 1 : 0;
  if (decision.slots > inputs.slots) memory->above = 0;
  if (decision.slots < inputs.slots) memory->below = 0;
}

}  // namespace overlord::plan
