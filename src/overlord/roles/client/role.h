// The client's only door: one per fetching rank, single-threaded on its own loop. What it hands
// over goes to `deliver`, in step order; the trainer's side answers with consumed().
#pragma once

#include <functional>
#include <memory>

#include "overlord/protocol/messages.h"
#include "overlord/roles/client/logic.h"
#include "overlord/roles/client/probe.h"
#include "overlord/runtime/seams.h"

namespace overlord::client {

struct ClientSeams {
  runtime::Transport<protocol::Envelope>* transport = nullptr;
  std::function<void(ReadyStep)> deliver;                  // called on the loop; must not block
  std::function<void(protocol::ReportAnswered)> answered;  // to a report; the same
  std::function<void(model::StepFeedback)> rule_asked;     // a user's mixing rule; the same
  // A user's function of the strategy; the same. CalloutTold is for the planner.
  std::function<void(protocol::CalloutAsked)> callout_asked;
};

class Client {
 public:
  Client(ClientJob job, StepIndex first_step, ClientSeams seams,
         protocol::PeerGenerations peers = {});
  ~Client();

  // All on the role's loop.
  void start();
  void receive(const protocol::Envelope& envelope);
  void consumed(StepIndex step, uint32_t tree);
  // A report of this rank, or what a user's rule or function has answered.
  void tell_planner(const protocol::Message& message);
  // Steps from `first_step` on, none of which has been planned, are of another tree.
  void reseat(StepIndex first_step, const protocol::Address& constructor);
  // Steps that may have been read are placed again. False: it was told before.
  bool restart(const Restarted& restarted);

  ClientProbe& probe();

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace overlord::client
