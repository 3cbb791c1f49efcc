#include "overlord/roles/constructor/logic.h"

#include <optional>

#include "overlord/base/check.h"
#include "overlord/protocol/steps_kept.h"

namespace overlord::constructor {
namespace {

protocol::Fetch fetch_of(const ConstructorJob& job, StepIndex step, const StepEntry& entry,
                         const protocol::Address& loader) {
  const auto known = entry.undecodable.find(loader);
  if (known == entry.undecodable.end()) return {step, job.bucket};
  return {step, job.bucket, known->second};
}

struct OnMessage {
  const ConstructorJob& job;
  const ConstructorState& state;
  const protocol::Envelope& envelope;
  Reaction* out;

  void operator()(const protocol::PlanPublished& message) const {
    if (message.plan->versions.tree != job.tree) return;    // of another constructor's tree
    if (state.step(message.plan->step) != nullptr) return;  // told twice
    if (message.plan->step < state.acknowledged()) return;
    out->events.push_back(PlanSeen{message.plan, message.index});
  }
  void operator()(const protocol::Get& message) const {
    out->events.push_back(StepWanted{envelope.from.index, message.step, message.acknowledged});
  }
  // A rank whose process was started again: it stands where its state says.
  void take_back(const protocol::Address& role) const {
    if (role.kind != protocol::RoleKind::kClient) return;
    if (const auto* get = std::get_if<protocol::Get>(&envelope.message)) {
      out->events.push_back(RankReturned{role.index, get->acknowledged});
    }
  }
  // A rank of a later tree asks for nothing here any more, and is still to be waited for.
  void operator()(const protocol::Acknowledged& message) const {
    if (envelope.from.kind == protocol::RoleKind::kPlanner) {
      out->events.push_back(PlansBegin{message.acknowledged});
    } else {
      out->events.push_back(RankDone{envelope.from.index, message.acknowledged});
    }
  }
  void operator()(const protocol::PayloadPtr& message) const {
    const StepEntry* entry = state.step(message->step);
    if (entry == nullptr || !entry->missing.contains(envelope.from)) return;  // late or repeated
    out->events.push_back(PayloadArrived{message->step, envelope.from, media_bytes(*message)});
    out->effects.push_back(Keep{message});
    if (entry->missing.size() == 1) out->effects.push_back(Assemble{message->step});
  }
  // Once decoded; what stands for what others encode takes nothing.
  uint64_t media_bytes(const protocol::Payload& payload) const {
    uint64_t bytes = 0;
    for (const auto* pieces : {&payload.media, &payload.encoded}) {
      for (const model::MediaPiece& piece : *pieces) {
        if (piece.data.data == nullptr || piece.field >= job.media_row_bytes.size()) continue;
        if (piece.packed && piece.packed->judged_only) continue;
        bytes += piece.shape.rows * job.media_row_bytes[piece.field];
      }
    }
    return bytes;
  }
  void operator()(const protocol::StreamFailed& message) const {
    out->events.push_back(Failed{message.step, message.status});
  }
  // What the planner before it was told may be lost with it.
  void operator()(const protocol::TermOpened&) const {
    const protocol::Address planner = protocol::planner_address();
    protocol::TermPromised promise{envelope.versions.generation, 0, {}};
    if (state.acknowledges()) promise.planned = state.acknowledged();
    if (!state.steps().empty()) {
      const model::Plan& newest = *state.steps().rbegin()->second.plan;
      promise.planned = newest.step + 1;
      promise.plan_hash = newest.plan_hash;
      promise.tree = job.tree;
    }
    if (const auto& told = state.told()) promise.ends.push_back({told->step, told->status});
    // Its journal may not tell: a sync that failed ends the stream, and cannot be written down.
    if (const auto& failure = state.failure()) {
      promise.ends.push_back({failure->step, failure->status});
    }
    out->effects.push_back(Send{planner, promise});
    if (state.acknowledges()) {
      out->effects.push_back(Send{planner, protocol::Acknowledged{state.acknowledged()}});
    }
  }
  // What a dead loader was asked and did not answer is asked again; what has come is kept.
  void operator()(const protocol::PeerRestarted& message) const {
    if (message.generation < state.peers().of(message.role)) return;
    out->events.push_back(message);
    for (const auto& [step, entry] : state.steps()) {
      if (entry.again || !entry.missing.contains(message.role)) continue;
      out->effects.push_back(Send{message.role, fetch_of(job, step, entry, message.role)});
    }
  }
  template <typename Other>
  void operator()(const Other&) const {}  // not for a constructor; dropped
};

void start_step(const ConstructorJob& job, StepIndex step, const StepEntry& entry, Reaction* out) {
  OVERLORD_CHECK(job.bucket < entry.index->buckets.size(), "a group of the plan");
  std::set<protocol::Address> loaders;
  if (job.wants_payload) {
    for (const model::LoaderSlot& slot : entry.index->buckets[job.bucket].readers) {
      const protocol::Address loader = protocol::loader_address(slot.source, slot.slot);
      loaders.insert(loaders.end(), loader);
      out->effects.push_back(Send{loader, protocol::Fetch{step, job.bucket}});
    }
  }
  if (loaders.empty()) out->effects.push_back(Assemble{step});
  out->events.push_back(StepStarted{step, std::move(loaders)});
}

Status too_late(Rank rank, StepIndex step) {
  return {Code::kUnavailable, "rank " + std::to_string(rank) + " comes back at step " +
                                  std::to_string(step) +
                                  ", which all ranks of its group are done with and whose plan is "
                                  "not kept any more (the newest " +
                                  std::to_string(protocol::kStepsKept) +
                                  " are, as long as no loader or constructor restarts): restart "
                                  "the job from its states"};
}

}  // namespace

Reaction on_message(const ConstructorJob& job, const ConstructorState& state,
                    const protocol::Envelope& envelope) {
  Reaction out;
  if (state.peers().stale(job.versions, envelope)) return out;
  const OnMessage react{job, state, envelope, &out};
  if (const auto news = state.peers().news(envelope)) {
    out.events.push_back(*news);
    react.take_back(news->role);
  }
  std::visit(react, envelope.message);
  return out;
}

Reaction on_undecodable(
    const ConstructorJob& job, const ConstructorState& state, StepIndex step,
    const std::map<protocol::Address, std::vector<protocol::Undecodable>>& found) {
  Reaction out;
  const StepEntry* entry = state.step(step);
  if (entry == nullptr) return out;  // acknowledged meanwhile
  for (const auto& [loader, undecodable] : found) {
    OVERLORD_CHECK(!undecodable.empty() && !entry->missing.contains(loader),
                   "what did not decode has come");
    out.events.push_back(PayloadRefused{step, loader, undecodable});
    protocol::Fetch fetch = fetch_of(job, step, *entry, loader);
    fetch.undecodable.insert(fetch.undecodable.end(), undecodable.begin(), undecodable.end());
    out.effects.push_back(Send{loader, std::move(fetch)});
  }
  return out;
}

Reaction on_transform_failed(const ConstructorState& state, StepIndex step, const Status& status) {
  Reaction out;
  if (state.step(step) == nullptr) return out;  // acknowledged meanwhile
  // Ranks here hear of it from the planner's answer, as all others do: a rank that has heard of it
  // asks no more, so if this process died before the planner knows, nobody would ever tell the
  // other groups.
  out.events.push_back(FailureTold{step, status});
  out.effects.push_back(Send{protocol::planner_address(), protocol::StreamFailed{step, status}});
  return out;
}

Reaction next_work(const ConstructorJob& job, const ConstructorState& state) {
  Reaction out;
  for (size_t client = 0; client < state.ranks().size(); ++client) {
    if (state.wanted(client).empty()) continue;
    const Rank rank = state.ranks()[client];
    for (const StepIndex step : state.wanted(client)) {
      const StepEntry* entry = state.step(step);
      if (entry != nullptr && entry->stage == Stage::kReady) {
        OVERLORD_CHECK(entry->missing.empty(), "a step is ready when all of it has come");
        out.events.push_back(StepDelivered{rank, step});
        out.effects.push_back(Deliver{rank, step});
        return out;
      }
      std::optional<Status> why;
      if (state.failure() && step >= state.failure()->step) why = state.failure()->status;
      if (state.gone(client, step)) why = too_late(rank, step);
      if (why) {
        out.events.push_back(StepDelivered{rank, step});
        out.effects.push_back(
            Send{protocol::client_address(rank), protocol::StreamFailed{step, *why}});
        return out;
      }
    }
  }
  for (const auto& [step, entry] : state.steps()) {
    if (step >= state.wanted_limit()) break;
    if (state.failure() && step >= state.failure()->step) break;  // earlier steps are still served
    // A constructor that starts in the middle makes only what is asked again: its clients hold the
    // rest.
    if (entry.stage != Stage::kPlanned || !state.wanted_by_any(step)) continue;
    // The oldest always fits (law 11). After a restart a newer one may have been asked for first.
    // How large its media are is known when they come: it is taken to be like the largest so far.
    const uint64_t bytes = (uint64_t{state.steps_held()} + 1) * job.step_bytes +
                           state.media_bytes() + state.most_media_bytes();
    if (state.oldest_held() < step && bytes > job.budget_bytes) break;
    start_step(job, step, entry, &out);
    return out;
  }
  return out;
}

}  // namespace overlord::constructor
