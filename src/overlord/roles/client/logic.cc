#include "overlord/roles/client/logic.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "overlord/base/check.h"

namespace overlord::client {
namespace {

constexpr StepIndex kNoEnd = std::numeric_limits<StepIndex>::max();

struct Seat {  // where the steps of one tree come from
  protocol::Address constructor;
  StepIndex first = 0;
  StepIndex until = kNoEnd;
};

std::vector<Seat> seats_of(const ClientJob& job, const ClientState& state) {
  std::vector<Seat> seats = {{protocol::constructor_address(job.bucket)}};
  for (const auto& [first, constructor] : state.seats()) {
    OVERLORD_CHECK(seats.back().first <= first, "seats follow each other");
    seats.back().until = first;
    seats.push_back({constructor, first});
  }
  return seats;
}

void ask(const ClientState& state, StepIndex step, const protocol::Address& constructor,
         Reaction* out) {
  OVERLORD_CHECK(step >= state.consumed(), "nobody asks for what is done with");
  out->effects.push_back(Send{constructor, protocol::Get{step, state.consumed()}});
}

// Where a step comes from. What was made of it under an earlier tree may be on its way.
std::optional<protocol::Address> origin_of(const ClientJob& job, const ClientState& state,
                                           StepIndex step) {
  if (state.absent()) return std::nullopt;
  for (const Seat& seat : seats_of(job, state)) {
    if (step >= seat.first && step < seat.until) return seat.constructor;
  }
  return std::nullopt;
}

struct OnMessage {
  const ClientJob& job;
  const ClientState& state;
  const protocol::Address& from;
  Reaction* out;

  void operator()(const protocol::StepReady& message) const {
    if (origin_of(job, state, message.step) != from) return;
    out->events.push_back(StepArrived{{message.step, message.plan, message.microbatches, {}}});
  }
  void operator()(const protocol::StreamFailed& message) const {
    out->events.push_back(StepArrived{{message.step, nullptr, {}, message.status}});
  }
  // A report that was repeated has been judged before, perhaps: by nobody who lives to tell.
  void operator()(const protocol::ReportAnswered& message) const {
    const auto kept = state.reports().find(message.step);
    // Settled, and forgotten since it was repeated.
    if (kept == state.reports().end() && !state.reports().empty() &&
        message.step < state.reports().begin()->first) {
      return;
    }
    protocol::ReportAnswered answer = message;
    if (kept != state.reports().end() && kept->second.repeated) {
      if (kept->second.settled && !kept->second.retold) return;
      // Of several answers to one step it may be any: what is true of it is known here.
      if (kept->second.retold) {
        answer.verdict = protocol::Verdict::kDuplicate;
      } else if (answer.verdict == protocol::Verdict::kDuplicate) {
        answer.verdict = protocol::Verdict::kAccepted;
      }
    }
    out->events.push_back(ReportSettled{message.step});
    out->effects.push_back(Answered{answer});
  }
  // Reports that the planner before it had, and did not write down, count only if it gets them.
  void operator()(const protocol::TermOpened&) const {
    out->events.push_back(ReportsRepeated{});
    for (const auto& [step, report] : state.reports()) {
      out->effects.push_back(Send{protocol::planner_address(), protocol::Report{report.part}});
    }
  }
  void operator()(const protocol::Report& message) const {
    out->effects.push_back(RuleAsked{message.part});
  }
  void operator()(const protocol::CalloutAsked& message) const {
    out->effects.push_back(CalloutAsked{message});
  }
  // Its memory is gone, and with it what it was asked.
  void operator()(const protocol::PeerRestarted& message) const {
    if (message.generation < state.peers().of(message.role)) return;
    out->events.push_back(message);
    for (const Seat& seat : seats_of(job, state)) {
      if (message.role != seat.constructor) continue;
      bool asked = false;
      for (const StepIndex step : state.missing()) {
        if (step < seat.first || step >= seat.until) continue;
        ask(state, step, seat.constructor, out);
        asked = true;
      }
      // It holds every step until all its ranks are done with it, those that miss nothing as well.
      if (asked) continue;
      const StepIndex done = std::min(state.consumed(), seat.until);
      out->effects.push_back(Send{seat.constructor, protocol::Acknowledged{done}});
    }
  }
  template <typename Other>
  void operator()(const Other&) const {}  // not for a client; dropped
};

}  // namespace

Reaction on_start(const ClientJob& job) {
  Reaction out;
  const uint32_t generation = job.versions.generation;
  if (generation == 1) return out;
  out.effects.push_back(
      Send{protocol::planner_address(),
           protocol::PeerRestarted{protocol::client_address(job.rank), generation}});
  return out;
}

Reaction on_message(const ClientJob& job, const ClientState& state,
                    const protocol::Envelope& envelope) {
  Reaction out;
  if (state.peers().stale(job.versions, envelope)) return out;
  if (const auto news = state.peers().news(envelope)) out.events.push_back(*news);
  std::visit(OnMessage{job, state, envelope.from, &out}, envelope.message);
  return out;
}

Reaction next_work(const ClientJob& job, const ClientState& state) {
  Reaction out;
  if (const ReadyStep* ready = state.ready()) {
    out.effects.push_back(HandOver{*ready});
    out.events.push_back(StepHandedOver{ready->step});
    return out;
  }
  if (!state.finished() && !state.absent() &&
      state.next_ask() <= state.consumed() + job.prefetch_steps) {
    const StepIndex step = state.next_ask();
    out.events.push_back(StepAsked{step});
    for (const Seat& seat : seats_of(job, state)) {
      if (step >= seat.first && step < seat.until) ask(state, step, seat.constructor, &out);
    }
    OVERLORD_CHECK(out.effects.size() == 1, "a step comes from one seat");
  }
  return out;
}

Reaction on_consumed(const ClientJob& job, const ClientState& state, StepIndex step,
                     uint32_t tree) {
  Reaction out;
  const std::optional<protocol::Address> origin = origin_of(job, state, step);
  if (!origin || protocol::tree_of(*origin) != tree) return out;
  out.events.push_back(StepConsumed{step});
  for (const Seat& seat : seats_of(job, state)) {
    if (step < seat.first || step >= seat.until) continue;
    if (seat.until == kNoEnd && !state.finished()) continue;  // the next Get tells it
    out.effects.push_back(Send{seat.constructor, protocol::Acknowledged{step + 1}});
  }
  return out;
}

Reaction on_telling(const ClientState& state, const protocol::Message& message) {
  Reaction out;
  const auto* report = std::get_if<protocol::Report>(&message);
  if (report != nullptr && report->part.weights.empty()) {
    const bool again = state.reports().contains(report->part.step);
    out.events.push_back(again ? Event(ReportRetold{report->part.step})
                               : Event(Reported{report->part}));
  }
  out.effects.push_back(Send{protocol::planner_address(), message});
  return out;
}

Reaction on_reseated(const ClientJob& job, const ClientState& state, StepIndex first_step,
                     const protocol::Address& constructor) {
  Reaction out;
  if (state.seats().contains(first_step)) return out;             // told twice
  if (protocol::tree_of(constructor) < state.tree()) return out;  // it holds no more
  out.events.push_back(Reseated{first_step, constructor});
  const Seat before = seats_of(job, state).back();
  const StepIndex done = std::min(state.consumed(), first_step);
  out.effects.push_back(Send{before.constructor, protocol::Acknowledged{done}});
  for (const StepIndex step : state.missing()) {
    if (step >= first_step) ask(state, step, constructor, &out);
  }
  return out;
}

Reaction on_restarted(const ClientState& state, const Restarted& restarted) {
  Reaction out;
  if (restarted.tree > state.tree()) out.events.emplace_back(restarted);  // else told twice
  return out;
}

}  // namespace overlord::client
