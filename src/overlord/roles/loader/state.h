// LoaderState: one slot of one source. What it may post, what it was asked, what it waits for.
// Changed only by apply(); the bytes themselves live with the service.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/owner_map.h"
#include "overlord/model/slot_rows.h"
#include "overlord/protocol/peer_generations.h"

namespace overlord::loader {

struct FetchKey {
  StepIndex step = 0;
  uint32_t tree = 0;  // of the constructor that asks: a step may be placed again under another
  uint32_t bucket = 0;

  friend auto operator<=>(const FetchKey&, const FetchKey&) = default;
};

struct GrantRaised {
  uint64_t limit = 0;
  uint64_t first = 0;  // windows before it have been posted
  std::vector<model::OwnerRange> owners = {};
};
struct PlanSeen {
  model::SlotRowsPtr rows;
};
struct FetchAsked {
  FetchKey key;
  std::map<SampleId, std::string> undecodable = {};  // documents of it that the asker cannot decode
};
struct FetchStarted {
  FetchKey key;
};
struct FetchAnswered {
  FetchKey key;
};
struct WindowStarted {  // its metadata is being made
  uint64_t sequence = 0;
};
struct WindowSkipped {  // another slot's, or made already
  uint64_t sequence = 0;
};
struct WindowPosted {
  uint64_t sequence = 0;
};
struct HolesFound {  // the answer to a fetch waits until these rows are in the journal
  FetchKey key;
  std::map<SampleId, std::string> rows;  // with the reasons
};
struct HoleLogged {
  SampleId row;
};
struct FailureTold {  // to the planner
  StepIndex step = 0;
  Status status;
};
struct TermHeard {};  // another planner grants from now on
struct StepsRetired {
  StepIndex acknowledged = 0;
};
struct Withheld {  // one that stands by answers nobody: it looks at this when it is active
  std::shared_ptr<const protocol::Envelope> envelope;
};
struct Promoted {};  // active in a new generation: what it has said in another may be refused
struct WarmingStarted {
  StepIndex step = 0;
};
struct WarmingDone {};

using Event = std::variant<GrantRaised, PlanSeen, FetchAsked, FetchStarted, FetchAnswered,
                           WindowStarted, WindowSkipped, WindowPosted, HolesFound, HoleLogged,
                           FailureTold, TermHeard, StepsRetired, Withheld, Promoted, WarmingStarted,
                           WarmingDone, protocol::PeerRestarted>;

class LoaderState {
 public:
  // `first_window`: sequence number at which this source starts posting.
  explicit LoaderState(uint64_t first_window, protocol::PeerGenerations peers = {},
                       bool standby = false)
      : next_window_(first_window),
        posted_before_(first_window),
        standby_(standby),
        peers_(std::move(peers)) {}

  void apply(const Event& event);

  uint64_t grant() const { return grant_; }
  // Of the windows that are granted.
  const std::vector<model::OwnerRange>& owners() const { return owners_; }
  uint64_t next_window() const { return next_window_; }  // not yet started
  // Asked for by the planner of another term, and not posted by now: whoever grants gets it.
  bool in_work(uint64_t window) const { return windows_in_work_.contains(window); }
  size_t windows_in_work() const { return windows_in_work_.size(); }
  const std::set<FetchKey>& waiting() const { return waiting_; }  // asked, not started
  // The first of them whose plan is known. An older one may wait for a plan that is on its way, or
  // for none: asked of a process that has died, when the step was done with, it reaches the next
  // one, which is never told of that step. It must not hold up the others.
  std::optional<FetchKey> oldest_planned() const;
  size_t fetches_in_work() const { return in_work_.size(); }
  // Answers that are made and wait for the journal, with the rows they wait for.
  const std::map<FetchKey, std::map<SampleId, std::string>>& unlogged() const { return unlogged_; }
  // The earliest that the planner was told: nobody else tells it again.
  const std::optional<FailureTold>& failure() const { return failure_; }
  // Documents of a fetch whose packed media did not decode where they were unpacked, and why.
  const std::map<SampleId, std::string>& undecodable(const FetchKey& key) const;
  // What this slot is to read of a step; null: it knows of nothing.
  const model::SlotRows* plan(StepIndex step) const;
  // That of the tree that the fetch is for; null: not known, or another tree holds by now.
  const model::SlotRows* plan(const FetchKey& key) const;
  const model::SlotRows* newest_plan() const {
    return plans_.empty() ? nullptr : plans_.rbegin()->second.get();
  }
  size_t plans() const { return plans_.size(); }
  const std::map<StepIndex, model::SlotRowsPtr>& known_plans() const { return plans_; }
  bool standby() const { return standby_; }  // active in another process
  const std::deque<std::shared_ptr<const protocol::Envelope>>& withheld() const {
    return withheld_;
  }
  // The oldest plan whose blocks were not asked for by a shadow; unset while it is at another.
  std::optional<StepIndex> unwarmed() const;
  const protocol::PeerGenerations& peers() const { return peers_; }

 private:
  struct Apply;
  uint64_t grant_ = 0;
  std::vector<model::OwnerRange> owners_;
  uint64_t next_window_ = 0;
  uint64_t posted_before_ = 0;  // as the planner has said: windows before it need no posting again
  std::set<uint64_t> windows_in_work_;
  std::map<StepIndex, model::SlotRowsPtr> plans_;
  std::set<FetchKey> waiting_;
  std::set<FetchKey> in_work_;
  std::map<FetchKey, std::map<SampleId, std::string>> unlogged_;
  std::optional<FailureTold> failure_;
  bool awaits_grant_ = false;  // of a new term, which says where posting goes on
  std::map<FetchKey, std::map<SampleId, std::string>> undecodable_;
  std::set<FetchKey> answered_;  // of plans that are known
  bool standby_ = false;
  std::deque<std::shared_ptr<const protocol::Envelope>> withheld_;
  StepIndex warmed_ = 0;  // plans before it were looked at
  bool warming_ = false;
  StepIndex retired_ = 0;  // steps before it are done with, by all constructors
  protocol::PeerGenerations peers_;
};

}  // namespace overlord::loader
