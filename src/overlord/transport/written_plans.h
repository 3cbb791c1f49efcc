// WrittenPlans: what clients are told of the plans of a carrier's steps, as bytes: written once,
// whoever gets it. Constructors pass it on as they got it: a state of hundreds of documents is
// decoded where it is used.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/model/plan.h"
#include "overlord/protocol/plan_codec.h"

namespace overlord::transport {

class WrittenPlans {
 public:
  using Bytes = std::shared_ptr<const std::string>;

  // For decode_plan. Of a part of a plan: what came with it.
  Bytes for_clients(const model::PlanPtr& plan);
  // A frame for a process of constructors: behind its first byte what keep_passed_on() reads.
  Bytes to_pass_on(const model::PlanPtr& plan);
  // Returns step and tree. Kept for the newest steps, and as long as a plan that was held is.
  Result<std::pair<StepIndex, uint32_t>> keep_passed_on(std::string_view bytes);
  void hold(const model::PlanPtr& plan);

 private:
  enum class Kind { kForClients, kToPassOn };
  struct Written {
    // Another attempt may plan a step anew, and another tree place it again.
    model::Versions versions;
    Digest plan_hash;
    Bytes bytes;
    bool passed_on = false;
    std::vector<std::weak_ptr<const model::Plan>> plans;
  };
  Bytes find(const model::PlanPtr& plan, Kind kind) OVERLORD_REQUIRES(mutex_);
  Bytes keep(const model::PlanPtr& plan, Kind kind, std::string bytes) OVERLORD_REQUIRES(mutex_);
  Bytes write_for_clients(const model::PlanPtr& plan) OVERLORD_REQUIRES(mutex_);
  void forget() OVERLORD_REQUIRES(mutex_);

  std::mutex mutex_;
  std::map<std::pair<StepIndex, Kind>, Written> written_ OVERLORD_GUARDED_BY(mutex_);
  StepIndex newest_ OVERLORD_GUARDED_BY(mutex_) = 0;  // of what was passed on
};

}  // namespace overlord::transport
