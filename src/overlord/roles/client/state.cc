#include "overlord/roles/client/state.h"

#include <algorithm>

#include "overlord/base/check.h"

namespace overlord::client {

struct ClientState::Apply {
  ClientState& self;

  void operator()(const StepAsked& event) const {
    OVERLORD_CHECK(event.step == self.next_ask_, "steps are asked for in order");
    OVERLORD_CHECK(!self.finished_, "nothing is asked behind the end");
    ++self.next_ask_;
  }
  void operator()(const StepArrived& event) const {
    OVERLORD_CHECK(event.ready.failure.has_value() || event.ready.plan->step == event.ready.step,
                   "a step comes with its plan");
    // A step that a restarted constructor made again has the same bytes: the first stays.
    if (event.ready.step >= self.next_handover_) {
      self.arrived_.try_emplace(event.ready.step, event.ready);
    }
  }
  void operator()(const StepHandedOver& event) const {
    const auto found = self.arrived_.find(event.step);
    OVERLORD_CHECK(found != self.arrived_.end() && event.step == self.next_handover_,
                   "steps are handed over in order");
    OVERLORD_CHECK(!self.finished_ && event.step < self.next_ask_,
                   "what is handed over was asked for");
    self.finished_ = found->second.failure.has_value() || found->second.plan->last;
    self.arrived_.erase(found);
    ++self.next_handover_;
  }
  void operator()(const StepConsumed& event) const {
    OVERLORD_CHECK(event.step < self.next_handover_, "what is consumed was handed over");
    self.consumed_ = std::max(self.consumed_, event.step + 1);
  }
  void operator()(const Restarted& event) const {
    OVERLORD_CHECK(event.tree > self.tree_, "a rank begins anew once under a tree");
    self.tree_ = event.tree;
    self.next_ask_ = self.next_handover_ = self.consumed_ = event.step;
    self.arrived_.clear();
    self.finished_ = false;
    self.absent_ = !event.constructor;
    self.seats_.clear();
    if (event.constructor) self.seats_[event.step] = *event.constructor;
  }
  void operator()(const Reseated& event) const {
    OVERLORD_CHECK(event.first_step >= self.consumed_, "consumed steps keep their tree");
    const bool fresh = self.seats_.emplace(event.first_step, event.constructor).second;
    OVERLORD_CHECK(fresh && self.seats_.rbegin()->first == event.first_step,
                   "trees follow each other");
  }
  void operator()(const Reported& event) const {
    OVERLORD_CHECK(event.part.weights.empty(), "what a rule has answered is no report");
    const bool fresh = self.reports_.try_emplace(event.part.step, KeptReport{event.part}).second;
    OVERLORD_CHECK(fresh, "the first report of a step stays");
    while (self.reports_.size() > self.reports_kept_ && self.reports_.begin()->second.settled) {
      self.reports_.erase(self.reports_.begin());
    }
  }
  void operator()(const ReportRetold& event) const {
    const auto found = self.reports_.find(event.step);
    OVERLORD_CHECK(found != self.reports_.end(), "what is told again is kept");
    found->second.retold = found->second.settled;
  }
  void operator()(const ReportsRepeated&) const {
    for (auto& [step, report] : self.reports_) report.repeated = true;
  }
  void operator()(const ReportSettled& event) const {
    const auto found = self.reports_.find(event.step);
    if (found == self.reports_.end()) return;
    found->second.settled = true;
    found->second.retold = false;
  }
  void operator()(const protocol::PeerRestarted& event) const {
    OVERLORD_CHECK(event.generation >= self.peers_.of(event.role), "a generation never goes back");
    self.peers_.apply(event);
  }
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
