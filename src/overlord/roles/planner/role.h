// The planner role's only door: one per job, metadata only, single-threaded on its own loop.
#pragma once

#include <memory>

#include "overlord/model/stream_state.h"
#include "overlord/protocol/messages.h"
#include "overlord/roles/planner/callouts.h"
#include "overlord/roles/planner/logic.h"
#include "overlord/roles/planner/probe.h"
#include "overlord/runtime/seams.h"

namespace overlord::planner {

struct PlannerSeams {
  runtime::Transport<protocol::Envelope>* transport = nullptr;
  runtime::Journal* journal = nullptr;
  runtime::Clock* clock = nullptr;
  // Runs a task on this role's own loop; how an answer of the journal comes back.
  std::function<void(runtime::Task)> on_loop;
  // A step's feedback is complete and durable; on the loop. May be empty.
  std::function<void(const model::StepFeedback&)> fed_back;
  // Asks the functions that the strategy names. Null: it names none.
  Callouts* callouts = nullptr;
};

struct PlannerStart {
  PlannerJob job;
  model::StreamState state;
  std::vector<model::StepFeedback> feedback;  // of the steps before that does not count yet
  std::vector<uint64_t> first_windows;        // per source: sequence number of the cursor's window
  protocol::PeerGenerations peers;
  Digest config;
  Digest manifest;
};

class Planner {
 public:
  Planner(PlannerStart start, PlannerSeams seams);
  ~Planner();

  // All on the role's loop.
  void start();
  void receive(const protocol::Envelope& envelope);
  // Steps that are not planned yet get the tree of another mesh, from the next step boundary on.
  Status rebuild_tree(const model::Mesh& mesh);

  const PlannerProbe& probe() const;
  const PlannerState& state() const;  // for tests and simulation, on the loop

 private:
  class Service;
  std::shared_ptr<Service> service_;
};

}  // namespace overlord::planner
