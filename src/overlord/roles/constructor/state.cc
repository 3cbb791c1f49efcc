#include "overlord/roles/constructor/state.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/protocol/steps_kept.h"

namespace overlord::constructor {
namespace {

uint64_t media_bytes_of(const StepEntry& entry) {
  uint64_t bytes = 0;
  for (const auto& [loader, size] : entry.media_bytes) bytes += size;
  return bytes;
}

}  // namespace

ConstructorState::ConstructorState(StepIndex first_step, std::vector<Rank> ranks,
                                   protocol::PeerGenerations peers)
    : first_step_(first_step),
      ranks_(std::move(ranks)),
      wanted_(ranks_.size()),
      acknowledged_(ranks_.size(), first_step),
      returned_(ranks_.size(), false),
      wanted_limit_(first_step),
      peers_(std::move(peers)) {
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
    OVERLORD_CHECK(event.plan->step >= self.acknowledged(), "steps that are done with stay so");
    StepEntry entry{Stage::kPlanned, event.plan, event.index, {}};
    const bool fresh = self.steps_.emplace(event.plan->step, std::move(entry)).second;
    OVERLORD_CHECK(fresh && event.index != nullptr, "a step is planned once");
  }
  void operator()(const StepWanted& event) const {
    self.wanted_[self.client_of(event.rank)].insert(event.step);
    self.wanted_limit_ = std::max(self.wanted_limit_, event.step + 1);
    (*this)(RankDone{event.rank, event.acknowledged});
  }
  void operator()(const RankDone& event) const {
    const size_t client = self.client_of(event.rank);
    StepIndex& done = self.acknowledged_[client];
    const StepIndex before = done;
    done = std::max(done, event.acknowledged);
    OVERLORD_CHECK(done >= before && self.acknowledged() <= done, "what is done with stays so");
    std::set<StepIndex>& wanted = self.wanted_[client];
    wanted.erase(wanted.begin(), wanted.lower_bound(done));  // asked again, and not any more
    keep_done();
  }
  void keep_done() const {
    self.released_ = std::max(self.released_, self.acknowledged());
    while (!self.steps_.empty() && self.steps_.begin()->first < self.acknowledged()) {
      const auto done = self.steps_.extract(self.steps_.begin());
      self.kept_[done.key()] = {Stage::kPlanned, done.mapped().plan, done.mapped().index, {}};
      if (self.kept_.size() > protocol::kStepsKept) self.kept_.erase(self.kept_.begin());
    }
  }
  void operator()(const PlansBegin& event) const {
    self.released_ = std::max(self.released_, event.step);
  }
  void operator()(const RankReturned& event) const {
    const size_t client = self.client_of(event.rank);
    self.acknowledged_[client] = event.step;
    self.returned_[client] = true;
    self.wanted_[client].clear();
    while (!self.kept_.empty() && self.kept_.rbegin()->first >= self.acknowledged()) {
      const auto kept = self.kept_.extract(std::prev(self.kept_.end()));
      self.steps_[kept.key()] = kept.mapped();
      self.steps_[kept.key()].again = true;
    }
    keep_done();
  }
  void operator()(const StepStarted& event) const {
    StepEntry& held = entry(event.step);
    OVERLORD_CHECK(held.stage == Stage::kPlanned, "a step starts once");
    held.stage = event.loaders.empty() ? Stage::kAssembling : Stage::kFetching;
    held.missing = event.loaders;
  }
  void operator()(const PayloadArrived& event) const {
    StepEntry& held = entry(event.step);
    OVERLORD_CHECK(held.stage == Stage::kFetching, "payloads come while a step is fetched");
    OVERLORD_CHECK(held.missing.erase(event.loader) == 1, "one payload per fetch");
    if (held.missing.empty()) held.stage = Stage::kAssembling;
    if (event.media_bytes == 0) return;
    held.media_bytes[event.loader] = event.media_bytes;  // instead of a refused one's
    self.most_media_bytes_ = std::max(self.most_media_bytes_, media_bytes_of(held));
  }
  void operator()(const PayloadRefused& event) const {
    StepEntry& held = entry(event.step);
    OVERLORD_CHECK(held.stage == Stage::kFetching || held.stage == Stage::kAssembling,
                   "what is refused has come and is not laid out");
    held.stage = Stage::kFetching;
    OVERLORD_CHECK(held.missing.insert(event.loader).second, "one refusal per payload");
    std::vector<protocol::Undecodable>& known = held.undecodable[event.loader];
    known.insert(known.end(), event.undecodable.begin(), event.undecodable.end());
  }
  void operator()(const StepAssembled& event) const {
    StepEntry& held = entry(event.step);
    OVERLORD_CHECK(held.stage == Stage::kAssembling && held.missing.empty(),
                   "a step is ready when all of it has come");
    held.stage = Stage::kReady;
  }
  void operator()(const StepDelivered& event) const {
    const size_t given = self.wanted_[self.client_of(event.rank)].erase(event.step);
    OVERLORD_CHECK(given == 1, "a step is given to who wants it, once");
  }
  void operator()(const Failed& event) const {
    if (!self.failure_ || event.step < self.failure_->step) self.failure_ = event;
  }
  void operator()(const FailureTold& event) const {
    OVERLORD_CHECK(!event.status.ok(), "a stream that fails says why");
    if (!self.told_ || event.step < self.told_->step) self.told_ = event;
  }
  void operator()(const protocol::PeerRestarted& event) const {
    OVERLORD_CHECK(event.generation >= self.peers_.of(event.role), "a generation never goes back");
    self.peers_.apply(event);
    if (event.role.kind == protocol::RoleKind::kLoader) forget_kept();
  }
  void forget_kept() const {
    self.kept_.clear();
    std::erase_if(self.steps_, [](const auto& step) {
      return step.second.again && step.second.stage <= Stage::kFetching;
    });
  }
};

void ConstructorState::apply(const Event& event) { std::visit(Apply{*this}, event); }

const StepEntry* ConstructorState::step(StepIndex step) const {
  const auto found = steps_.find(step);
  return found == steps_.end() ? nullptr : &found->second;
}

bool ConstructorState::wanted_by_any(StepIndex step) const {
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [step](const std::set<StepIndex>& wanted) { return wanted.contains(step); });
}

bool ConstructorState::gone(size_t client, StepIndex step) const {
  if (!returned_[client] || steps_.contains(step)) return false;
  // A later plan says nothing: one that was sent before the planner knew of a restart comes first.
  return step < released_;
}

StepIndex ConstructorState::acknowledged() const {
  return *std::min_element(acknowledged_.begin(), acknowledged_.end());
}

uint32_t ConstructorState::steps_held() const {
  uint32_t held = 0;
  for (const auto& [step, entry] : steps_) held += entry.stage == Stage::kPlanned ? 0 : 1;
  return held;
}

uint64_t ConstructorState::media_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [step, entry] : steps_) {
    const uint64_t coming = entry.stage == Stage::kFetching ? most_media_bytes_ : 0;
    bytes += std::max(media_bytes_of(entry), coming);
  }
  return bytes;
}

StepIndex ConstructorState::oldest_held() const {
  for (const auto& [step, entry] : steps_) {
    if (entry.stage != Stage::kPlanned) return step;
  }
  return wanted_limit_;
}

size_t ConstructorState::client_of(Rank rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
  OVERLORD_CHECK(found != ranks_.end(), "a request of a rank this constructor does not serve");
  return static_cast<size_t>(found - ranks_.begin());
}

}  // namespace overlord::constructor
