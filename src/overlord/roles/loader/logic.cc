#include "overlord/roles/loader/logic.h"

#include "overlord/base/check.h"
#include "overlord/protocol/steps_kept.h"

namespace overlord::loader {
namespace {

struct OnMessage {
  const LoaderJob& job;
  const LoaderState& state;
  const protocol::Envelope& envelope;
  Reaction* out;

  void operator()(const protocol::MetaGrant& message) const {
    out->events.push_back(GrantRaised{message.window_limit, message.first_window, message.owners});
  }
  // A slot is told of steps that it reads something of. What it knows of those before stays until
  // the next one: a few rows.
  void operator()(const protocol::RowsPlanned& message) const {
    out->events.push_back(PlanSeen{message.rows});
    // Step k is planned only when every constructor has acknowledged all steps up to k - runway.
    // Some before those may still be fetched again.
    const StepIndex limit = message.rows->step + 1;
    const uint32_t kept = job.runway + protocol::kStepsKept;
    if (limit > kept) out->events.push_back(StepsRetired{limit - kept});
  }
  void operator()(const protocol::Fetch& message) const {
    FetchAsked asked{{message.step, protocol::tree_of(envelope.from), message.bucket}};
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
    promise(envelope.versions.generation);
    say_again();
  }
  void promise(uint32_t term) const {
    protocol::TermPromised promise{term, 0, {}};
    if (const model::SlotRows* newest = state.newest_plan()) {
      promise.planned = newest->step + 1;
      promise.plan_hash = newest->plan_hash;
      promise.tree = newest->tree;
    }
    if (const auto& failure = state.failure()) {
      promise.ends.push_back({failure->step, failure->status});
    }
    tell_planner(promise);
  }
  void say_again() const {
    for (const auto& [key, rows] : state.unlogged()) {
      for (const auto& [id, reason] : rows) tell_planner(protocol::LateBad{key.step, id, reason});
    }
  }
  void tell_planner(protocol::Message message) const {
    out->effects.push_back(Tell{std::move(message)});
  }
  // Nothing to send again: a restarted constructor asks for what it lacks.
  void operator()(const protocol::PeerRestarted& message) const {
    const uint32_t known = state.peers().of(message.role);
    if (message.generation < known) return;
    out->events.push_back(message);
    if (message.generation > known) heed_term(message.role);
  }
  // One that stands by is not asked for a promise, and may be promoted before it hears of the term:
  // what an earlier planner granted counts no more.
  void heed_term(const protocol::Address& role) const {
    if (role == protocol::planner_address()) out->events.push_back(TermHeard{});
  }
  template <typename Other>
  void operator()(const Other&) const {}  // not for a loader; dropped
};

// Answered by the active home alone. Who asks may have heard of a promotion before us.
bool for_the_active(const protocol::Message& message) {
  return std::holds_alternative<protocol::Fetch>(message) ||
         std::holds_alternative<protocol::LateBad>(message) ||
         std::holds_alternative<protocol::TermOpened>(message);
}

}  // namespace

Reaction on_message(const LoaderJob& job, const LoaderState& state,
                    const protocol::Envelope& envelope) {
  Reaction out;
  if (state.peers().stale(job.versions, envelope)) return out;
  const OnMessage react{job, state, envelope, &out};
  const bool restarted = std::holds_alternative<protocol::PeerRestarted>(envelope.message);
  if (const auto news = state.peers().news(envelope); news && !restarted) {
    out.events.push_back(*news);
    react.heed_term(news->role);
  }
  if (state.standby() && for_the_active(envelope.message)) {
    out.events.push_back(Withheld{std::make_shared<const protocol::Envelope>(envelope)});
  } else {
    std::visit(react, envelope.message);
  }
  return out;
}

Reaction on_promoted(const LoaderJob& job, const LoaderState& state) {
  Reaction out;
  const protocol::Envelope from_planner{job.versions, protocol::planner_address(), {}, {}};
  const OnMessage react{job, state, from_planner, &out};
  // Unasked: a slot that was active here before it stood by has forgotten what it was told and
  // asked then, which may have been meant for this generation. A promise is answered with all of
  // it.
  react.promise(state.peers().of(protocol::planner_address()));
  if (!state.standby()) react.say_again();
  out.events.emplace_back(Promoted{});
  return out;
}

Reaction next_work(const LoaderJob& job, const LoaderState& state) {
  Reaction out;
  OVERLORD_CHECK(job.workers > 0 && job.windows_per_pass > 0, "a loader has somebody to work");
  OVERLORD_CHECK(state.fetches_in_work() <= job.workers && state.windows_in_work() <= job.workers,
                 "no more is in work than may be");
  if (state.standby()) {
    const std::optional<StepIndex> step = state.unwarmed();
    if (!job.warm || !step) return out;
    out.events.push_back(WarmingStarted{*step});
    out.effects.push_back(Warm{*step});
    return out;
  }
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
    if (!job.owns(sequence, state.owners()) || state.in_work(sequence)) {
      out.events.push_back(WindowSkipped{sequence});
    } else if (state.windows_in_work() < job.workers) {
      out.events.push_back(WindowStarted{sequence});
      out.effects.push_back(MakeWindow{sequence});
    }
  }
  return out;
}

}  // namespace overlord::loader
