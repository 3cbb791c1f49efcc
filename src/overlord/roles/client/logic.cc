#include "overlord/roles/client/logic.h"

namespace overlord::client {
namespace {

struct OnMessage {
  const ClientJob& job;
  const ClientState& state;
  Reaction* out;

  void operator()(const protocol::StepReady& message) const {
    out->events.push_back(StepArrived{{message.step, message.plan, message.microbatches, {}}});
  }
  void operator()(const protocol::StreamFailed& message) const {
    out->events.push_back(StepArrived{{message.step, nullptr, {}, message.status}});
  }
  void operator()(const protocol::ReportAnswered& message) const {
    out->effects.push_back(Answered{message});
  }
  // Its memory is gone, and with it what it was asked.
  void operator()(const protocol::PeerRestarted& message) const {
    if (message.generation < state.peers().of(message.role)) return;
    out->events.push_back(message);
    if (message.role != protocol::constructor_address(job.bucket)) return;
    for (const StepIndex step : state.missing()) {
      out->effects.push_back(Send{message.role, protocol::Get{step, state.consumed()}});
    }
  }
  template <typename Other>
  void operator()(const Other&) const {}  // not for a client; dropped
};

}  // namespace

Reaction on_message(const ClientJob& job, const ClientState& state,
                    const protocol::Envelope& envelope) {
  Reaction out;
  if (state.peers().stale(job.versions, envelope)) return out;
  if (const auto news = state.peers().news(envelope)) out.events.push_back(*news);
  std::visit(OnMessage{job, state, &out}, envelope.message);
  return out;
}

Reaction next_work(const ClientJob& job, const ClientState& state) {
  Reaction out;
  if (const ReadyStep* ready = state.ready()) {
    out.effects.push_back(HandOver{*ready});
    out.events.push_back(StepHandedOver{ready->step});
    return out;
  }
  if (!state.finished() && state.next_ask() <= state.consumed() + job.prefetch_steps) {
    const StepIndex step = state.next_ask();
    out.events.push_back(StepAsked{step});
    out.effects.push_back(
        Send{protocol::constructor_address(job.bucket), protocol::Get{step, state.consumed()}});
  }
  return out;
}

}  // namespace overlord::client
