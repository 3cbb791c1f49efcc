#include "overlord/roles/planner/term.h"

#include <string>

#include "overlord/base/check.h"

namespace overlord::planner {
namespace {

std::string name_of(const protocol::Address& role) {
  const bool loader = role.kind == protocol::RoleKind::kLoader;
  return (loader ? "loader " : "constructor ") + std::to_string(role.index) + "." +
         std::to_string(role.slot);
}

std::string told_apart(const Digest& ours, const Digest& theirs) {
  return ours.hex() + " here, " + theirs.hex() + " there";
}

}  // namespace

void ask_to_promise(const protocol::Address& role, Reaction* out) {
  out->events.push_back(TermAsked{role});
  out->effects.push_back(Send{role, protocol::TermOpened{}});
}

bool is_asked(const PlannerState& state, const protocol::Address& role) {
  return role.kind == protocol::RoleKind::kLoader || state.constructor(role) != nullptr;
}

std::vector<Event> must_promise(const PlannerJob& job, const PlannerState& state) {
  std::vector<Event> out;
  for (SourceIndex s = 0; s < job.most_slots.size(); ++s) {
    for (uint32_t slot = 0; slot < job.most_slots[s]; ++slot) {
      out.emplace_back(TermAsked{protocol::loader_address(s, slot)});
    }
  }
  for (const ConstructorSlot& slot : state.constructors()) {
    out.emplace_back(TermAsked{slot.address});
  }
  OVERLORD_CHECK(!out.empty(), "a job has roles");
  return out;
}

Reaction open_term(const PlannerState& state) {
  Reaction out;
  for (const protocol::Address& role : state.unpromised()) {
    out.effects.push_back(Send{role, protocol::TermOpened{}});
  }
  return out;
}

Reaction on_opened(const PlannerJob& job, const PlannerState& state) {
  OVERLORD_CHECK(state.unpromised().empty(), "all have promised");
  Reaction out = on_start(job, state);
  if (!state.failure()) return out;
  Reaction failed = on_failed(state);
  out.effects.insert(out.effects.end(), failed.effects.begin(), failed.effects.end());
  return out;
}

Reaction on_remade(const PlannerJob& job) {
  Reaction out;
  for (const Rank rank : job.ranks) {
    out.effects.push_back(Send{protocol::client_address(rank), protocol::TermOpened{}});
  }
  return out;
}

void check_promise(const PlannerJob& job, const PlannerState& state, const protocol::Address& role,
                   const protocol::TermPromised& promise, Reaction* out) {
  OVERLORD_CHECK(promise.term == job.generation, "a promise to another term says nothing here");
  if (state.failure()) return;
  // What it was told of may have been placed again since.
  const auto* newest = state.newest();
  if (newest && newest->second.version > promise.tree && promise.planned > newest->first) return;
  if (promise.planned > state.unplanned()) {
    out->effects.push_back(Fail{
        state.unplanned(),
        Status(Code::kBadData, "journal: the planner of term " + std::to_string(job.generation) +
                                   " found plans before step " + std::to_string(state.unplanned()) +
                                   ", and " + name_of(role) + " was told of step " +
                                   std::to_string(promise.planned - 1) +
                                   ": records were lost; restart from the last checkpoint")});
    return;
  }
  if (promise.planned == 0 || promise.plan_hash == Digest()) return;
  const StepIndex step = promise.planned - 1;
  const protocol::PlanRecord* taken = state.taken(step);
  if (taken == nullptr || taken->plan_hash == promise.plan_hash) return;
  out->effects.push_back(
      Fail{step, Status(Code::kBadData, "journal: the plan of step " + std::to_string(step) +
                                            " differs from that of " + name_of(role) + ": " +
                                            told_apart(taken->plan_hash, promise.plan_hash) +
                                            "; restart from the last checkpoint")});
}

Status check_remade(const PlannerState& state, const model::Plan& plan) {
  const protocol::PlanRecord* taken = state.taken(plan.step);
  OVERLORD_CHECK(taken != nullptr && plan.step == state.next_step(),
                 "what an earlier term has planned is made again in order");
  if (taken->plan_hash == plan.plan_hash && taken->content_hash == plan.content_hash) return {};
  const bool content = taken->content_hash != plan.content_hash;
  return {Code::kBadData,
          "journal: step " + std::to_string(plan.step) + " was planned again and " +
              (content ? "holds something else" : "is placed otherwise") + ": " +
              (content ? told_apart(taken->content_hash, plan.content_hash)
                       : told_apart(taken->plan_hash, plan.plan_hash)) +
              "; another build, other data or another machine than before? Restart from the last "
              "checkpoint with what made it"};
}

}  // namespace overlord::planner
