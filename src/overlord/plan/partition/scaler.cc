#include "overlord/plan/partition/scaler.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::plan {
namespace {

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

std::string in_workers(uint64_t milli) {
  return std::to_string(milli / 1000) + "." + std::to_string(milli / 100 % 10);
}

}  // namespace

std::vector<ScaleAdvice> Scaler::next(const std::vector<IntervalLoad>& loads) {
  memory_.resize(loads.size());
  std::vector<ScaleAdvice> out;
  for (SourceIndex s = 0; s < loads.size(); ++s) {
    const IntervalLoad& load = loads[s];
    OVERLORD_CHECK(load.slots > 0 && load.workers > 0, "a source has somebody who reads it");
    std::string reason;
    const uint32_t slots = policy_ == model::ScalingPolicy::kShare
                               ? by_share(load, loads.size(), &memory_[s], &reason)
                               : by_load(load, &memory_[s], &reason);
    if (slots != load.slots) out.push_back({s, slots, std::move(reason)});
  }
  return out;
}

uint32_t Scaler::by_load(const IntervalLoad& load, Memory* memory, std::string* reason) const {
  const uint64_t workers = uint64_t{load.slots} * load.workers;
  uint64_t need = load.busy_milli;
  if (load.busy_milli >= kFullMilli * workers) need = std::max(need, 2 * kTargetMilli * workers);
  if (load.share_now > 0 && load.share_soon > load.share_now) {
    need = need * load.share_soon / load.share_now;
  }
  const uint64_t of_a_slot = kTargetMilli * load.workers;
  const uint64_t slots = (need + of_a_slot - 1) / of_a_slot;
  const auto wanted =
      static_cast<uint32_t>(std::clamp<uint64_t>(slots, 1, std::max(load.most_slots, load.slots)));
  memory->wanted.push_back(wanted);
  if (memory->wanted.size() > kPatience) memory->wanted.pop_front();
  *reason = in_workers(load.busy_milli) + " of " + std::to_string(workers) +
            " workers busy, asked for " + std::to_string(load.share_now) + " thousandths and " +
            std::to_string(load.share_soon) + " soon: " + std::to_string(wanted) + " slots";
  if (wanted > load.slots) return std::min(wanted, load.most_slots);
  const uint32_t most = *std::max_element(memory->wanted.begin(), memory->wanted.end());
  const bool patient = memory->wanted.size() == kPatience;
  if (!patient || uint64_t{most} * 1000 > kShrinkMilli * load.slots) return load.slots;
  return most;
}

uint32_t Scaler::by_share(const IntervalLoad& load, size_t sources, Memory* memory,
                          std::string* reason) const {
  const uint64_t before = memory->average_share.value_or(load.share_now);
  const uint64_t average = (before * (1000 - kNewestMilli) + load.share_now * kNewestMilli) / 1000;
  memory->average_share = average;
  const uint64_t of_even = average * sources;  // thousandths of an even share
  memory->above = of_even > kAboveMilli ? memory->above + 1 : 0;
  memory->below = of_even < kBelowMilli ? memory->below + 1 : 0;
  *reason = "its moving average is " + in_workers(of_even) + " of an even share";
  if (memory->above >= kInARow && load.slots < load.most_slots) {
    memory->above = 0;
    return load.slots + 1;
  }
  if (memory->below >= kInARow && load.slots > 1) {
    memory->below = 0;
    return load.slots - 1;
  }
  return load.slots;
}

}  // namespace overlord::plan
