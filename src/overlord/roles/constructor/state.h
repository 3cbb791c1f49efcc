// ConstructorState: one data-parallel group. Which steps its clients want, which are being fetched,
// assembled, ready, and how many bytes they hold. Changed only by apply().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/plan.h"
#include "overlord/model/plan_index.h"
#include "overlord/protocol/peer_generations.h"

namespace overlord::constructor {

struct PlanSeen {
  model::PlanPtr plan;
  std::shared_ptr<const model::PlanIndex> index;
};
struct StepWanted {
  Rank rank = 0;
  StepIndex step = 0;
  StepIndex acknowledged = 0;
};
struct RankDone {  // with the steps before
  Rank rank = 0;
  StepIndex acknowledged = 0;
};
struct PlansBegin {  // the planner tells of none before
  StepIndex step = 0;
};
struct RankReturned {  // from the dead, and not where it was: it is done with the steps before
  Rank rank = 0;
  StepIndex step = 0;
};
struct StepStarted {  // fetches sent
  StepIndex step = 0;
  std::set<protocol::Address> loaders;  // whose answers to wait for
};
struct PayloadArrived {
  StepIndex step = 0;
  protocol::Address loader;
  uint64_t media_bytes = 0;  // that its media will take
};
struct PayloadRefused {  // some of its packed media did not decode: asked for again
  StepIndex step = 0;
  protocol::Address loader;
  std::vector<protocol::Undecodable> undecodable;
};
struct StepAssembled {
  StepIndex step = 0;
};
struct StepDelivered {
  Rank rank = 0;
  StepIndex step = 0;
};
struct Failed {
  StepIndex step = 0;
  Status status;
};

struct FailureTold {  // to the planner
  StepIndex step = 0;
  Status status;
};

using Event = std::variant<PlanSeen, StepWanted, RankDone, PlansBegin, RankReturned, StepStarted,
                           PayloadArrived, PayloadRefused, StepAssembled, StepDelivered, Failed,
                           FailureTold, protocol::PeerRestarted>;

enum class Stage : uint8_t { kPlanned, kFetching, kAssembling, kReady };

struct StepEntry {
  Stage stage = Stage::kPlanned;
  model::PlanPtr plan;
  std::shared_ptr<const model::PlanIndex> index;
  std::set<protocol::Address> missing;  // loaders whose payload has not come
  // What a loader's media did not decode to; told with every further fetch of the step.
  std::map<protocol::Address, std::vector<protocol::Undecodable>> undecodable = {};
  std::map<protocol::Address, uint64_t> media_bytes = {};  // of the payloads that have come
  // All were done with it before one came back. A loader that restarts is never told of it.
  bool again = false;
};

class ConstructorState {
 public:
  ConstructorState(StepIndex first_step, std::vector<Rank> ranks,
                   protocol::PeerGenerations peers = {});

  void apply(const Event& event);

  const std::map<StepIndex, StepEntry>& steps() const { return steps_; }
  const StepEntry* step(StepIndex step) const;
  const std::vector<Rank>& ranks() const { return ranks_; }
  // Steps a rank has asked for and not yet been given.
  const std::set<StepIndex>& wanted(size_t client) const { return wanted_[client]; }
  bool wanted_by_any(StepIndex step) const;
  // A step that a rank wants which has come back too late: it will not be held any more.
  bool gone(size_t client, StepIndex step) const;
  StepIndex acknowledged() const;  // steps before it are done with, by all clients
  // Some of its own are; the first may lie far ahead, where a tree begins.
  bool acknowledges() const { return acknowledged() > first_step_; }
  StepIndex wanted_limit() const { return wanted_limit_; }  // one past the newest step asked for
  uint32_t steps_held() const;                              // fetching, assembling or ready
  StepIndex oldest_held() const;                            // wanted_limit() when none is
  // Of all steps that are held; of those on their way as much as the largest so far.
  uint64_t media_bytes() const;
  uint64_t most_media_bytes() const { return most_media_bytes_; }  // that a step has had so far
  const std::optional<Failed>& failure() const { return failure_; }
  // The earliest that the planner was told: nobody else tells it again.
  const std::optional<FailureTold>& told() const { return told_; }
  const protocol::PeerGenerations& peers() const { return peers_; }

 private:
  struct Apply;
  size_t client_of(Rank rank) const;
  StepIndex first_step_;
  std::vector<Rank> ranks_;
  std::map<StepIndex, StepEntry> steps_;
  std::map<StepIndex, StepEntry> kept_;      // done with, the newest; plans alone
  StepIndex released_ = 0;                   // all were done with the steps before, at some time
  std::vector<std::set<StepIndex>> wanted_;  // parallel to ranks_
  std::vector<StepIndex> acknowledged_;
  std::vector<bool> returned_;
  StepIndex wanted_limit_ = 0;
  uint64_t most_media_bytes_ = 0;
  std::optional<Failed> failure_;
  std::optional<FailureTold> told_;
  protocol::PeerGenerations peers_;
};

}  // namespace overlord::constructor
