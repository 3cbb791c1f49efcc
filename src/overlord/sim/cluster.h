// SimCluster: one whole job in the simulated world, its real roles and one consumer per rank. Test
// only. A run is a function of (job, seed): the same seed replays it event by event.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "overlord/host/consumer.h"
#include "overlord/host/feedback_ledger.h"
#include "overlord/host/open_job.h"
#include "overlord/host/role_host.h"
#include "overlord/runtime/byte_encoder.h"
#include "overlord/runtime/in_memory/memory_storage.h"
#include "overlord/sim/processes.h"
#include "overlord/sim/slow_function.h"
#include "overlord/sim/slow_journal.h"
#include "overlord/sim/slow_storage.h"
#include "overlord/sim/world.h"

namespace overlord::sim {

// Sources over objects in memory, indexed, ready to run on any mesh.
Result<std::shared_ptr<const host::OpenJob>> open_in_memory(model::JobSpec spec,
                                                            model::DeliverySpec delivery,
                                                            model::Mesh mesh,
                                                            runtime::MemoryStorage& objects,
                                                            bool lengths);

// Whoever plays a user's function over microbatches lives in the cluster's world.
using MakeBatchTransform = std::function<std::unique_ptr<runtime::BatchTransform>(World&)>;

struct Delivered {  // what one rank got, in order
  std::vector<model::MicrobatchPtr> batches;
};

class SimCluster {
 public:
  SimCluster(std::shared_ptr<const host::OpenJob> job, runtime::MemoryStorage& objects,
             std::vector<Rank> ranks, model::RuntimeOptions options, protocol::ResumeState state,
             uint64_t seed, const Layout& layout = {}, planner::Callouts* callouts = nullptr,
             const MakeBatchTransform& make_batch_transform = {});

  // Every rank takes batches until it has finished `steps` more steps or the stream ends. False: it
  // hangs, which is a bug.
  bool run(uint64_t steps);
  // One rank alone takes `microbatches`.
  bool take(Rank rank, uint64_t microbatches);
  // The same, as far as it gets while others take nothing.
  void take_if_there(Rank rank, uint64_t microbatches);

  // Its trainer died, or was told to wait.
  void lose(Rank rank) { seats_.at(rank).gone = true; }

  const Delivered& delivered(Rank rank) { return seats_.at(rank).delivered; }
  host::Consumer& consumer(Rank rank) { return seats_.at(rank).consumer; }
  const std::vector<Rank>& ranks() const { return ranks_; }
  Digest stream_hash();
  std::optional<Status> failure() const;
  World& world() { return world_; }
  SlowTransport& transport() { return transport_; }
  host::RoleHost& host() { return processes_->host_of(protocol::planner_address()); }
  Sightings sightings() const { return processes_->sightings(); }
  const JournalDisk& journal() const { return disk_; }
  // Asks for another mesh, and asks again whenever a planner comes back.
  void rebuild(const planner::TreeWish& wish, const planner::Planner::TreeAnswer& done);
  const std::vector<loader::QuarantineNote>& quarantine() const { return quarantine_; }
  // The resume state of a rank, with the feedback it needs; waits for it in virtual time.
  std::optional<protocol::ResumeState> state(Rank rank);
  // Sends a report now; its verdict joins answers().
  void report(Rank rank, model::StepFeedback part) { host_of(rank).report(rank, std::move(part)); }
  const std::vector<std::pair<Rank, protocol::ReportAnswered>>& answers() const { return answers_; }
  // What a rank reports of a step when it has consumed it; unset: nothing.
  std::function<std::optional<model::StepFeedback>(Rank, StepIndex)> reports;
  // What a rank wishes when it has consumed a step: so many slots of a source; unset: nothing.
  std::function<std::optional<protocol::SlotsWished>(Rank, StepIndex)> resizes;
  // A user's mixing rule: weights after a step, out of its losses and the newest weights.
  std::function<Result<std::vector<int64_t>>(const model::StepFeedback&)> rule;
  bool keep_batches = true;

 private:
  struct Seat {
    explicit Seat(protocol::ResumeState base) : consumer(std::move(base)) {}
    host::Consumer consumer;
    std::vector<client::ReadyStep> waiting;
    Delivered delivered;
    Digest hash;  // of all that the rank got, over its lives
    uint64_t steps_left = 0;
    StepIndex run_from = 0;
    uint64_t batches_left = 0;
    uint64_t deaths = 0;
    bool gone = false;  // takes nothing any more, until a tree has a place for it again
  };
  void restarted(Rank rank, const planner::TreeChanged& change);
  host::RoleHost& host_of(Rank rank) { return processes_->host_of(protocol::client_address(rank)); }
  protocol::ResumeState rank_died(Rank rank);
  void drain(Rank rank);
  void consumed(Rank rank, StepIndex step, uint32_t tree);
  void ask_rule(Rank rank, const model::StepFeedback& question);
  void ask_function(Rank rank, const protocol::CalloutAsked& asked);
  bool satisfied(const Seat& seat) const;

  std::vector<Rank> ranks_;
  World world_;
  SlowStorage storage_;
  SlowTransport transport_;
  JournalDisk disk_;
  runtime::ByteEncoder encoder_;
  SlowFunction function_;  // of every media field that declares one
  std::unique_ptr<runtime::BatchTransform> batch_transform_;
  std::map<Rank, Seat> seats_;
  std::vector<loader::QuarantineNote> quarantine_;
  std::vector<std::pair<Rank, protocol::ReportAnswered>> answers_;
  planner::Callouts* callouts_;  // in the planner's process, or where the ranks are
  host::FeedbackLedger ledger_;
  std::unique_ptr<Processes> processes_;
};

}  // namespace overlord::sim
