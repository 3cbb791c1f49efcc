// The planner role's only door: one per job, metadata only, single-threaded on its own loop.
#pragma once

#include <memory>

#include "overlord/model/stream_state.h"
#include "overlord/protocol/messages.h"
#include "overlord/roles/planner/callouts.h"
#include "overlord/roles/planner/logic.h"
#include "overlord/roles/planner/probe.h"
#include "overlord/roles/planner/tree.h"
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
  // A new tree is durable: those who need it are to be told, and then the planner; nothing is
  // planned meanwhile. On the loop; the answer from anywhere. May be empty.
  std::function<void(const TreeChanged&, std::function<void()> ready)> tree_changed = {};
  // A constructor of an earlier tree is needed no more; on the loop. May be empty.
  std::function<void(const protocol::Address&)> retired = {};
  // The journal belongs to a later term: this planner says nothing any more. On the loop; may be
  // empty.
  std::function<void(const Status&)> superseded = {};
  // Asks the functions that the strategy names. Null: they are where the ranks are.
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
  std::string run = {};
  // The journal of an earlier term to go on from; `state` and `first_windows` are then its start's.
  std::shared_ptr<const JournalFold> folded = nullptr;
};

class Planner {
 public:
  Planner(PlannerStart start, PlannerSeams seams);
  ~Planner();

  // All on the role's loop.
  void start();
  void receive(const protocol::Envelope& envelope);
  // Steps that are not planned yet get the tree of another mesh. The answer, on the loop, is the
  // first of them: given once it is durable and everybody is ready for it.
  using TreeAnswer = std::function<void(const Result<StepIndex>&)>;
  void rebuild_tree(TreeWish wish, TreeAnswer done);

  const PlannerProbe& probe() const;
  const PlannerState& state() const;  // for tests and simulation, on the loop

 private:
  class Service;
  std::shared_ptr<Service> service_;
};

}  // namespace overlord::planner
