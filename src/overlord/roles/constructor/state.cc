#include "overlord/roles/constructor/state.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::constructor {

ConstructorState::ConstructorState(StepIndex first_step, std::vector<Rank> ranks)
    : ranks_(std::move(ranks)),
      wanted_(ranks_.size()),
      acknowledged_(ranks_.size(), first_step),
      wanted_limit_(first_step) {
  OVERLORD_CHECK(!ranks_.empty(), "a constructor serves at least one rank");
}

struct ConstructorState::Apply {
  ConstructorState& self;

  StepEntry& entry(StepIndex step) const {
    const auto found = self.steps_.find(step);
    OVERLORD_CHECK(found != self.steps_.end(), "an event of a step that is not held");
    return found->second;
  }
  void operator()(const PlanSeen& event) const {
    self.steps_[event.plan->step] = {Stage::kPlanned, event.plan, event.index, 0};
  }
  void operator()(const StepWanted& event) const {
    const size_t client = self.client_of(event.rank);
    self.wanted_[client].insert(event.step);
    self.wanted_limit_ = std::max(self.wanted_limit_, event.step + 1);
    self.acknowledged_[client] = std::max(self.acknowledged_[client], event.acknowledged);
    self.steps_.erase(self.steps_.begin(), self.steps_.lower_bound(self.acknowledged()));
  }
  void operator()(const StepStarted& event) const {
    StepEntry& held = entry(event.step);
    held.stage = event.payloads == 0 ? Stage::kAssembling : Stage::kFetching;
    held.payloads_missing = event.payloads;
  }
  void operator()(const PayloadArrived& event) const {
    StepEntry& held = entry(event.step);
    OVERLORD_CHECK(held.payloads_missing > 0, "one payload per fetch");
    if (--held.payloads_missing == 0) held.stage = Stage::kAssembling;
  }
  void operator()(const StepAssembled& event) const { entry(event.step).stage = Stage::kReady; }
  void operator()(const StepDelivered& event) const {
    self.wanted_[self.client_of(event.rank)].erase(event.step);
  }
  void operator()(const Failed& event) const {
    if (!self.failure_ || event.step < self.failure_->step) self.failure_ = event;
  }
};

void ConstructorState::apply(const Event& event) { std::visit(Apply{*this}, event); }

const StepEntry* ConstructorState::step(StepIndex step) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? nullptr : &found->second;
}

StepIndex ConstructorState::acknowledged() const {
  return *std::min_element(acknowledged_.begin(), acknowledged_.end());
}

uint32_t ConstructorState::steps_held() const {
  uint32_t held = 0;
  for (const auto& [step, entry] : steps_) held += entry.stage == Stage::kPlanned ? 0 : 1;
  return held;
}

size_t ConstructorState::client_of(Rank rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
  OVERLORD_CHECK(found != ranks_.end(), "a request of a rank this constructor does not serve");
  return static_cast<size_t>(found - ranks_.begin());
}

}  // namespace overlord::constructor
