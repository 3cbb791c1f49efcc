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
struct StepStarted {  // fetches sent
  StepIndex step = 0;
  uint32_t payloads = 0;  // answers to wait for
};
struct PayloadArrived {
  StepIndex step = 0;
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

using Event = std::variant<PlanSeen, StepWanted, StepStarted, PayloadArrived, StepAssembled,
                           StepDelivered, Failed>;

enum class Stage : uint8_t { kPlanned, kFetching, kAssembling, kReady };

struct StepEntry {
  Stage stage = Stage::kPlanned;
  model::PlanPtr plan;
  std::shared_ptr<const model::PlanIndex> index;
  uint32_t payloads_missing = 0;
};

class ConstructorState {
 public:
  ConstructorState(StepIndex first_step, std::vector<Rank> ranks);

  void apply(const Event& event);

  const std::map<StepIndex, StepEntry>& steps() const { return steps_; }
  const StepEntry* step(StepIndex step) const;
  const std::vector<Rank>& ranks() const { return ranks_; }
  // Steps a rank has asked for and not yet been given.
  const std::set<StepIndex>& wanted(size_t client) const { return wanted_[client]; }
  StepIndex acknowledged() const;  // steps before it are done with, by all clients
  StepIndex wanted_limit() const { return wanted_limit_; }  // one past the newest step asked for
  uint32_t steps_held() const;                              // fetching, assembling or ready
  const std::optional<Failed>& failure() const { return failure_; }

 private:
  struct Apply;
  size_t client_of(Rank rank) const;
  std::vector<Rank> ranks_;
  std::map<StepIndex, StepEntry> steps_;
  std::vector<std::set<StepIndex>> wanted_;  // parallel to ranks_
  std::vector<StepIndex> acknowledged_;
  StepIndex wanted_limit_ = 0;
  std::optional<Failed> failure_;
};

}  // namespace overlord::constructor
