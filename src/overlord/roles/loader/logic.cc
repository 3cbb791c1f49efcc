#include "overlord/roles/loader/logic.h"

#include "overlord/base/check.h"

namespace overlord::loader {
namespace {

struct OnMessage {
  const LoaderJob& job;
  const LoaderState& state;
  const protocol::Envelope& envelope;
  Reaction* out;

  void operator()(const protocol::MetaGrant& message) const {
    out->events.push_back(GrantRaised{message.window_limit, message.first_window});
  }
  void operator()(const protocol::PlanPublished& message) const {
    out->events.push_back(PlanSeen{message.plan, message.index});
    // Step k is planned only when every constructor has acknowledged all steps up to k - runway.
    const StepIndex step = message.plan->step;
    if (step >= job.runway) out->events.push_back(StepsRetired{step - job.runway + 1});
  }
  void operator()(const protocol::Fetch& message) const {
    FetchAsked asked{{message.step, message.bucket}};
    for (const protocol::Undecodable& one : message.undecodable) {
      asked.undecodable.emplace(one.id, one.reason);
    }
    out->events.push_back(std::move(asked));
  }
  void operator()(const protocol::LateBad& message) const {
    for (const auto& [key, rows] : state.unlogged()) {
      if (rows.size() == 1 && rows.contains(message.id)) out->effects.push_back(Answer{key});
    }
    out->events.push_back(HoleLogged{message.id});
  }
  // What the planner before it was told may be lost with it; posting begins with the next grant.
  void operator()(const protocol::TermOpened&) const {
    out->events.push_back(TermHeard{});
    protocol::TermPromised promise{envelope.versions.generation, 0, {}};
    if (const KnownPlan* newest = state.newest_plan()) {
      promise.planned = newest->plan->step + 1;
      promise.plan_hash = newest->plan->plan_hash;
    }
    tell_planner(promise);
    for (const auto& [key, rows] : state.unlogged()) {
      for (const auto& [id, reason] : rows) tell_planner(protocol::LateBad{key.first, id, reason});
    }
    if (const auto& failure = state.failure()) {
      tell_planner(protocol::StreamFailed{failure->step, failure->status});
    }
  }
  void tell_planner(protocol::Message message) const {
    out->effects.push_back(Tell{std::move(message)});
  }
  // Nothing to send again: a restarted constructor asks for what it lacks.
  void operator()(const protocol::PeerRestarted& message) const {
    if (message.generation >= state.peers().of(message.role)) out->events.push_back(message);
  }
  template <typename Other>
  void operator()(const Other&) const {}  // not for a loader; dropped
};

}  // namespace

Reaction on_message(const LoaderJob& job, const LoaderState& state,
                    const protocol::Envelope& envelope) {
  Reaction out;
  if (state.peers().stale(job.versions, envelope)) return out;
  if (const auto news = state.peers().news(envelope)) out.events.push_back(*news);
  std::visit(OnMessage{job, state, envelope, &out}, envelope.message);
  return out;
}

Reaction next_work(const LoaderJob& job, const LoaderState& state) {
  Reaction out;
  OVERLORD_CHECK(job.workers > 0 && job.windows_per_pass > 0, "a loader has somebody to work");
  OVERLORD_CHECK(state.fetches_in_work() <= job.workers && state.windows_in_work() <= job.workers,
                 "no more is in work than may be");
  // Planned samples first: somebody waits for them. The oldest is always allowed to start.
  const std::optional<FetchKey> key = state.oldest_planned();
  if (key && state.fetches_in_work() < job.workers) {
    out.events.push_back(FetchStarted{*key});
    out.effects.push_back(Serve{*key});
    return out;
  }
  const bool behind_the_end = job.one_pass && state.next_window() >= job.windows_per_pass;
  if (state.next_window() < state.grant() && !behind_the_end) {
    const uint64_t sequence = state.next_window();
    if (!job.owns(sequence) || state.in_work(sequence)) {
      out.events.push_back(WindowSkipped{sequence});
    } else if (state.windows_in_work() < job.workers) {
      out.events.push_back(WindowStarted{sequence});
      out.effects.push_back(MakeWindow{sequence});
    }
  }
  return out;
}

}  // namespace overlord::loader
