#include "overlord/roles/client/state.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::client {

struct ClientState::Apply {
  ClientState& self;

  void operator()(const StepAsked& event) const {
    OVERLORD_CHECK(event.step == self.next_ask_, "steps are asked for in order");
    ++self.next_ask_;
  }
  void operator()(const StepArrived& event) const {
    // A step that a restarted constructor made again has the same bytes: the first stays.
    if (event.ready.step >= self.next_handover_) {
      self.arrived_.try_emplace(event.ready.step, event.ready);
    }
  }
  void operator()(const StepHandedOver& event) const {
    const auto found = self.arrived_.find(event.step);
    OVERLORD_CHECK(found != self.arrived_.end() && event.step == self.next_handover_,
                   "steps are handed over in order");
    self.finished_ = found->second.failure.has_value() || found->second.plan->last;
    self.arrived_.erase(found);
    ++self.next_handover_;
  }
  void operator()(const StepConsumed& event) const {
    self.consumed_ = std::max(self.consumed_, event.step + 1);
  }
  void operator()(const Reseated& event) const {
    OVERLORD_CHECK(event.first_step >= self.consumed_, "consumed steps keep their tree");
    self.seats_.emplace(event.first_step, event.constructor);
  }
  void operator()(const protocol::PeerRestarted& event) const { self.peers_.apply(event); }
};

void ClientState::apply(const Event& event) { std::visit(Apply{*this}, event); }

const ReadyStep* ClientState::ready() const {
  if (finished_) return nullptr;
  const auto found = arrived_.find(next_handover_);
  return found == arrived_.end() ? nullptr : &found->second;
}

std::vector<StepIndex> ClientState::missing() const {
  std::vector<StepIndex> missing;
  if (finished_) return missing;
  for (StepIndex step = next_handover_; step < next_ask_; ++step) {
    if (!arrived_.contains(step)) missing.push_back(step);
  }
  return missing;
}

}  // namespace overlord::client
