// WrittenPlans: the plans of a carrier's steps as bytes, each written once, whoever gets it.
// Clients get no bin and the state of the stream; loaders and constructors get the bins, and what
// clients are to be told as bytes to pass on: a state of hundreds of documents is decoded where it
// is used.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/model/plan.h"
#include "overlord/protocol/plan_codec.h"

namespace overlord::transport {

class WrittenPlans {
 public:
  using Bytes = std::shared_ptr<const std::string>;

  // For decode_plan.
  Bytes for_clients(const model::PlanPtr& plan);
  // For read_for_roles.
  Bytes for_roles(const model::PlanPtr& plan);
  // A plan without its state, whose for_clients() is what its sender wrote.
  Result<model::PlanPtr> read_for_roles(std::string_view bytes,
                                        const protocol::PlanContext& context);

 private:
  enum class Reader { kClient, kRole };
  struct Written {
    std::weak_ptr<const model::Plan> plan;
    Bytes bytes;
  };
  Bytes find(const model::PlanPtr& plan, Reader reader) const OVERLORD_REQUIRES(mutex_);
  Bytes keep(const model::PlanPtr& plan, Reader reader, std::string bytes)
      OVERLORD_REQUIRES(mutex_);
  Bytes write_for_clients(const model::PlanPtr& plan) OVERLORD_REQUIRES(mutex_);

  std::mutex mutex_;
  std::map<std::pair<StepIndex, Reader>, Written> written_
      OVERLORD_GUARDED_BY(mutex_);  // of plans that somebody holds
};

}  // namespace overlord::transport
