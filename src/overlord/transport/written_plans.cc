#include "overlord/transport/written_plans.h"

#include <algorithm>

#include "overlord/base/bytes.h"
#include "overlord/protocol/fields/field_codec.h"
#include "overlord/transport/carrier_peer.h"

namespace overlord::transport {

WrittenPlans::Bytes WrittenPlans::find(const model::PlanPtr& plan, Kind kind) {
  const auto found = written_.find({plan->step, kind});
  if (found == written_.end() || found->second.plan_hash != plan->plan_hash ||
      found->second.versions != plan->versions) {
    return nullptr;
  }
  return found->second.bytes;
}

WrittenPlans::Bytes WrittenPlans::keep(const model::PlanPtr& plan, Kind kind, std::string bytes) {
  forget();
  auto kept = std::make_shared<const std::string>(std::move(bytes));
  written_.insert_or_assign({plan->step, kind},
                            Written{plan->versions, plan->plan_hash, kept, false, {plan}});
  return kept;
}

void WrittenPlans::forget() {
  std::erase_if(written_, [this](const auto& entry) {
    if (entry.second.passed_on && entry.first.first + kPlansKept > newest_) return false;
    return std::all_of(entry.second.plans.begin(), entry.second.plans.end(),
                       [](const auto& plan) { return plan.expired(); });
  });
}

WrittenPlans::Bytes WrittenPlans::write_for_clients(const model::PlanPtr& plan) {
  if (Bytes known = find(plan, Kind::kForClients)) return known;
  return keep(plan, Kind::kForClients, protocol::encode_plan(protocol::plan_for_clients(*plan)));
}

WrittenPlans::Bytes WrittenPlans::for_clients(const model::PlanPtr& plan) {
  const std::lock_guard lock(mutex_);
  return write_for_clients(plan);
}

WrittenPlans::Bytes WrittenPlans::to_pass_on(const model::PlanPtr& plan) {
  const std::lock_guard lock(mutex_);
  if (Bytes known = find(plan, Kind::kToPassOn)) return known;
  ByteWriter writer;
  writer.u8(kPassedOn);
  protocol::FieldWriter fields(&writer);
  fields(plan->step, plan->versions, plan->plan_hash);
  const Bytes told = write_for_clients(plan);
  writer.raw(told->data(), told->size());
  return keep(plan, Kind::kToPassOn, writer.take());
}

Result<std::pair<StepIndex, uint32_t>> WrittenPlans::keep_passed_on(std::string_view bytes) {
  ByteReader reader(bytes);
  protocol::FieldReader fields(&reader);
  StepIndex step = 0;
  Written told;
  fields(step, told.versions, told.plan_hash);
  OVERLORD_RETURN_IF_ERROR(fields.status("plan", /*whole=*/false));
  told.bytes = std::make_shared<const std::string>(bytes.substr(bytes.size() - reader.remaining()));
  told.passed_on = true;
  const std::pair named(step, told.versions.tree);
  const std::lock_guard lock(mutex_);
  newest_ = std::max(newest_, step);
  // A planner that has come back tells it again: who holds a part of the first one, holds this.
  const auto known = written_.find({step, Kind::kForClients});
  if (known != written_.end()) {
    const model::Versions& before = known->second.versions;
    if (std::pair(before.attempt, before.tree) > std::pair(told.versions.attempt, named.second)) {
      return named;  // placed again since
    }
    if (known->second.plan_hash == told.plan_hash && before == told.versions) {
      told.plans = std::move(known->second.plans);
    }
  }
  written_.insert_or_assign({step, Kind::kForClients}, std::move(told));
  forget();
  return named;
}

void WrittenPlans::hold(const model::PlanPtr& plan) {
  const std::lock_guard lock(mutex_);
  const auto found = written_.find({plan->step, Kind::kForClients});
  if (found == written_.end() || found->second.plan_hash != plan->plan_hash) return;
  std::erase_if(found->second.plans, [](const auto& held) { return held.expired(); });
  found->second.plans.push_back(plan);
}

}  // namespace overlord::transport
