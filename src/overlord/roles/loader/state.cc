#include "overlord/roles/loader/state.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "overlord/base/check.h"

namespace overlord::loader {
namespace {

constexpr size_t kMostWithheld = 4096;  // beyond it the oldest is let go: it was asked long ago

}  // namespace

struct LoaderState::Apply {
  LoaderState& self;

  void operator()(const GrantRaised& event) const {
    OVERLORD_CHECK(event.first <= event.limit, "what has been posted was granted");
    // Of two that overtook each other the one that reaches further says more.
    if (self.awaits_grant_ || event.limit >= self.grant_) self.owners_ = event.owners;
    if (std::exchange(self.awaits_grant_, false)) {
      self.grant_ = event.limit;
      self.next_window_ = self.posted_before_ = event.first;
      return;
    }
    self.posted_before_ = std::max(self.posted_before_, event.first);
    self.grant_ = std::max(self.grant_, event.limit);
    self.next_window_ = std::max(self.next_window_, event.first);
  }
  void operator()(const PlanSeen& event) const {
    OVERLORD_CHECK(event.rows != nullptr && event.rows->fits(), "rows fit their buckets");
    const auto& [step, tree] = std::pair(event.rows->step, event.rows->tree);
    const model::SlotRows* known = self.plan(step);
    if (known != nullptr && known->tree > tree) return;  // placed again since
    for (auto it = self.plans_.lower_bound(step); it != self.plans_.end();) {
      it = it->second->tree < tree ? self.plans_.erase(it) : std::next(it);
    }
    self.plans_[step] = event.rows;
  }
  void operator()(const FetchAsked& event) const {
    // Asked twice and answered long ago: its plan will not come again, and the oldest goes first.
    if (event.key.step < self.retired_) return;
    if (!event.undecodable.empty()) {
      self.undecodable_[event.key].insert(event.undecodable.begin(), event.undecodable.end());
    }
    if (!self.in_work_.contains(event.key)) self.waiting_.insert(event.key);
  }
  void operator()(const FetchStarted& event) const {
    OVERLORD_CHECK(self.waiting_.erase(event.key) == 1, "a fetch starts once");
    OVERLORD_CHECK(self.in_work_.insert(event.key).second, "a fetch is in work once");
    OVERLORD_CHECK(self.plan(event.key) != nullptr, "a fetch starts when its plan is known");
  }
  void operator()(const FetchAnswered& event) const {
    OVERLORD_CHECK(self.in_work_.erase(event.key) == 1, "a fetch is answered once");
    if (event.key.step >= self.retired_) self.answered_.insert(event.key);
  }
  void operator()(const WindowStarted& event) const {
    OVERLORD_CHECK(event.sequence == self.next_window_, "windows start in order");
    OVERLORD_CHECK(event.sequence < self.grant_, "no window without a grant");
    ++self.next_window_;
    OVERLORD_CHECK(self.windows_in_work_.insert(event.sequence).second,
                   "a window is not made twice at a time");
  }
  void operator()(const WindowSkipped& event) const {
    OVERLORD_CHECK(event.sequence == self.next_window_ && event.sequence < self.grant_,
                   "windows are passed over in order");
    ++self.next_window_;
  }
  void operator()(const WindowPosted& event) const {
    OVERLORD_CHECK(self.windows_in_work_.erase(event.sequence) == 1, "a window is posted once");
  }
  void operator()(const HolesFound& event) const {
    OVERLORD_CHECK(!event.rows.empty(), "an answer waits for some rows");
    self.unlogged_[event.key] = event.rows;
  }
  void operator()(const HoleLogged& event) const {
    for (auto it = self.unlogged_.begin(); it != self.unlogged_.end();) {
      it->second.erase(event.row);
      it = it->second.empty() ? self.unlogged_.erase(it) : std::next(it);
    }
  }
  void operator()(const FailureTold& event) const {
    OVERLORD_CHECK(!event.status.ok(), "a stream that fails says why");
    if (!self.failure_ || event.step < self.failure_->step) self.failure_ = event;
  }
  // It counts what is posted from its own start on; nothing is granted until it has said so.
  void operator()(const TermHeard&) const {
    self.awaits_grant_ = true;
    self.grant_ = 0;
  }
  void operator()(const StepsRetired& event) const {
    self.retired_ = std::max(self.retired_, event.acknowledged);
    self.plans_.erase(self.plans_.begin(), self.plans_.lower_bound(self.retired_));
    self.waiting_.erase(self.waiting_.begin(), self.waiting_.lower_bound({self.retired_}));
    self.answered_.erase(self.answered_.begin(), self.answered_.lower_bound({self.retired_}));
    self.undecodable_.erase(self.undecodable_.begin(),
                            self.undecodable_.lower_bound({self.retired_}));
    OVERLORD_CHECK(self.waiting_.empty() || self.waiting_.begin()->step >= self.retired_,
                   "nobody waits for what is done with");
  }
  void operator()(const Withheld& event) const {
    OVERLORD_CHECK(self.standby_, "who is active hears everything");
    self.withheld_.push_back(event.envelope);
    if (self.withheld_.size() > kMostWithheld) self.withheld_.pop_front();
  }
  // Whoever heard of this generation before us has refused what we said in the one before. So
  // windows are posted again from where the planner counts, and what was asked is answered again.
  void operator()(const Promoted&) const {
    self.standby_ = false;
    self.withheld_.clear();
    self.next_window_ = self.posted_before_;
    for (const FetchKey& key : std::exchange(self.answered_, {})) {
      if (!self.in_work_.contains(key) && !self.unlogged_.contains(key)) self.waiting_.insert(key);
    }
  }
  void operator()(const WarmingStarted& event) const {
    OVERLORD_CHECK(!self.warming_ && event.step >= self.warmed_, "plans are warmed in order");
    self.warming_ = true;
    self.warmed_ = event.step + 1;
  }
  void operator()(const WarmingDone&) const {
    OVERLORD_CHECK(self.warming_, "what is done was begun");
    self.warming_ = false;
  }
  void operator()(const protocol::PeerRestarted& event) const {
    OVERLORD_CHECK(event.generation >= self.peers_.of(event.role), "a generation never goes back");
    self.peers_.apply(event);
  }
};

void LoaderState::apply(const Event& event) { std::visit(Apply{*this}, event); }

const std::map<SampleId, std::string>& LoaderState::undecodable(const FetchKey& key) const {
  static const std::map<SampleId, std::string> kNone;
  const auto found = undecodable_.find(key);
  return found == undecodable_.end() ? kNone : found->second;
}

std::optional<FetchKey> LoaderState::oldest_planned() const {
  for (const FetchKey& key : waiting_) {
    if (plan(key) != nullptr) return key;
  }
  return std::nullopt;
}

std::optional<StepIndex> LoaderState::unwarmed() const {
  const auto next = plans_.lower_bound(warmed_);
  if (warming_ || next == plans_.end()) return std::nullopt;
  return next->first;
}

const model::SlotRows* LoaderState::plan(StepIndex step) const {
  const auto found = plans_.find(step);
  return found == plans_.end() ? nullptr : found->second.get();
}

const model::SlotRows* LoaderState::plan(const FetchKey& key) const {
  const model::SlotRows* known = plan(key.step);
  return known != nullptr && known->tree == key.tree ? known : nullptr;
}

}  // namespace overlord::loader
