// Carries out a client's effects: asks its constructor, hands steps to the trainer's side.
#include "overlord/base/check.h"
#include "overlord/roles/client/role.h"

namespace overlord::client {

class Client::Service {
 public:
  Service(ClientJob job, StepIndex first_step, ClientSeams seams, protocol::PeerGenerations peers)
      : job_(std::move(job)),
        seams_(std::move(seams)),
        state_(first_step, std::move(peers), job_.reports_kept) {}

  void start() {
    perform(on_start(job_));
    pump();
  }

  void receive(const protocol::Envelope& envelope) {
    perform(on_message(job_, state_, envelope));
    pump();
  }

  void consumed(StepIndex step, uint32_t tree) {
    perform(on_consumed(job_, state_, step, tree));
    probe_.steps_consumed = state_.consumed();
    pump();
  }

  void tell_planner(const protocol::Message& message) { perform(on_telling(state_, message)); }

  void reseat(StepIndex first_step, const protocol::Address& constructor) {
    perform(on_reseated(job_, state_, first_step, constructor));
  }

  bool restart(const Restarted& restarted) {
    Reaction reaction = on_restarted(state_, restarted);
    const bool news = !reaction.events.empty();
    perform(std::move(reaction));
    pump();
    return news;
  }

  void pump() {
    for (;;) {
      Reaction reaction = next_work(job_, state_);
      if (reaction.events.empty()) break;
      perform(std::move(reaction));
    }
  }

  ClientProbe& probe() { return probe_; }

 private:
  void perform(Reaction reaction) {
    for (const Event& event : reaction.events) state_.apply(event);
    for (Effect& effect : reaction.effects) std::visit([&](auto& e) { carry_out(e); }, effect);
  }

  void carry_out(Send& send) {
    seams_.transport->send(
        {job_.versions, protocol::client_address(job_.rank), send.to, std::move(send.message)});
  }

  void carry_out(HandOver& effect) {
    OVERLORD_CHECK(effect.ready.plan != nullptr || effect.ready.failure,
                   "a step, or why there is none");
    ++probe_.steps_arrived;
    seams_.deliver(std::move(effect.ready));
  }

  void carry_out(Answered& effect) {
    if (seams_.answered) seams_.answered(effect.answer);
  }

  void carry_out(RuleAsked& effect) {
    if (seams_.rule_asked) seams_.rule_asked(std::move(effect.question));
  }

  void carry_out(CalloutAsked& effect) {
    if (seams_.callout_asked) seams_.callout_asked(std::move(effect.asked));
  }

  ClientJob job_;
  ClientSeams seams_;
  ClientState state_;
  ClientProbe probe_;
};

Client::Client(ClientJob job, StepIndex first_step, ClientSeams seams,
               protocol::PeerGenerations peers)
    : service_(std::make_unique<Service>(std::move(job), first_step, std::move(seams),
                                         std::move(peers))) {}
Client::~Client() = default;
void Client::start() { service_->start(); }
void Client::receive(const protocol::Envelope& envelope) { service_->receive(envelope); }
void Client::consumed(StepIndex step, uint32_t tree) { service_->consumed(step, tree); }
void Client::tell_planner(const protocol::Message& message) { service_->tell_planner(message); }
void Client::reseat(StepIndex first_step, const protocol::Address& constructor) {
  service_->reseat(first_step, constructor);
}
bool Client::restart(const Restarted& restarted) { return service_->restart(restarted); }
ClientProbe& Client::probe() { return service_->probe(); }

}  // namespace overlord::client
