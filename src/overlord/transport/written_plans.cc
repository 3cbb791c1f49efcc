#include "overlord/transport/written_plans.h"

#include "overlord/base/bytes.h"

namespace overlord::transport {

WrittenPlans::Bytes WrittenPlans::find(const model::PlanPtr& plan, Reader reader) const {
  const auto found = written_.find({plan->step, reader});
  // Another attempt may have planned the same step anew.
  const bool same = found != written_.end() && found->second.plan.lock() == plan;
  return same ? found->second.bytes : nullptr;
}

WrittenPlans::Bytes WrittenPlans::keep(const model::PlanPtr& plan, Reader reader,
                                       std::string bytes) {
  std::erase_if(written_, [](const auto& entry) { return entry.second.plan.expired(); });
  auto kept = std::make_shared<const std::string>(std::move(bytes));
  written_.insert_or_assign({plan->step, reader}, Written{plan, kept});
  return kept;
}

WrittenPlans::Bytes WrittenPlans::write_for_clients(const model::PlanPtr& plan) {
  if (Bytes known = find(plan, Reader::kClient)) return known;
  return keep(plan, Reader::kClient, protocol::encode_plan(protocol::slice_plan(*plan, {})));
}

WrittenPlans::Bytes WrittenPlans::for_clients(const model::PlanPtr& plan) {
  const std::lock_guard lock(mutex_);
  return write_for_clients(plan);
}

WrittenPlans::Bytes WrittenPlans::for_roles(const model::PlanPtr& plan) {
  const std::lock_guard lock(mutex_);
  if (Bytes known = find(plan, Reader::kRole)) return known;
  model::Plan stateless = *plan;
  stateless.state_after = nullptr;
  ByteWriter writer;
  writer.text(*write_for_clients(plan));
  const std::string rest = protocol::encode_plan(stateless);
  writer.raw(rest.data(), rest.size());
  return keep(plan, Reader::kRole, writer.take());
}

Result<model::PlanPtr> WrittenPlans::read_for_roles(std::string_view bytes,
                                                    const protocol::PlanContext& context) {
  ByteReader reader(bytes);
  const std::string_view for_clients = reader.text();
  OVERLORD_RETURN_IF_ERROR(reader.status("plan", /*whole=*/false));
  OVERLORD_TRY(model::PlanPtr plan,
               protocol::decode_plan(bytes.substr(bytes.size() - reader.remaining()), context));
  if (plan->state_after) return bad_data("plan: a state where none belongs");
  const std::lock_guard lock(mutex_);
  // A planner that has come back tells it again: whoever holds the first one needs its bytes.
  const auto known = written_.find({plan->step, Reader::kClient});
  const model::PlanPtr held = known == written_.end() ? nullptr : known->second.plan.lock();
  if (held && held->plan_hash == plan->plan_hash) return held;
  keep(plan, Reader::kClient, std::string(for_clients));
  return plan;
}

}  // namespace overlord::transport
