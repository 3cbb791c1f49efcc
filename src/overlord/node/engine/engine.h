// Engine: what a trainer's process holds of a running job: the seats of its ranks, however the
// roles behind them are hosted. One caller per rank at a time; everything else from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/hash.h"
#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/mesh.h"
#include "overlord/model/microbatch.h"
#include "overlord/node/engine/callers.h"
#include "overlord/node/engine/rank_seats.h"
#include "overlord/protocol/messages.h"
#include "overlord/roles/client/probe.h"
#include "overlord/roles/constructor/probe.h"
#include "overlord/roles/loader/role.h"
#include "overlord/roles/planner/probe.h"
#include "overlord/roles/planner/tree.h"
#include "overlord/runtime/birth_process.h"
#include "overlord/runtime/thread_executor.h"
#include "overlord/storage/journal_counts.h"

namespace overlord::node {

// `counts` of a role are what it counted itself; shown beside the rest.
struct LoaderStatus {
  std::string source;
  uint32_t slot = 0;
  uint64_t queue = 0, blocks_in_work = 0;
  loader::LoaderCounts<Plain> counts;  // without users' Python, which `python_ns` is
  uint64_t transform_ns = 0, python_ns = 0;
  // Memory now, and the most it was: decoded blocks, read and not decoded, with constructors, and
  // resident of the processes that tokenise its rows or run its Python.
  uint64_t buffer_bytes = 0, buffer_peak_bytes = 0, reading_bytes = 0, reading_peak_bytes = 0,
           in_flight_bytes = 0, in_flight_peak_bytes = 0, worker_bytes = 0, worker_peak_bytes = 0;
  bool standby = false;  // a shadow of the slot
  uint64_t reads = 1;    // 0: the source has fewer slots now

  OVERLORD_FIELDS(source, slot, queue, blocks_in_work, counts, transform_ns, python_ns,
                  buffer_bytes, buffer_peak_bytes, reading_bytes, reading_peak_bytes,
                  in_flight_bytes, in_flight_peak_bytes, worker_bytes, worker_peak_bytes, standby,
                  reads)
};
// What constructors spent on the packed media of a source.
struct UnpackStatus {
  std::string source;
  constructor::UnpackCounts<Plain> counts;
  uint64_t held_bytes = 0, peak_bytes = 0;

  OVERLORD_FIELDS(source, counts, held_bytes, peak_bytes)
};
struct ConstructorStatus {
  uint32_t bucket = 0;
  constructor::ConstructorCounts<Plain> counts;

  OVERLORD_FIELDS(bucket, counts)
};
struct ClientStatus {
  Rank rank = 0;
  client::ClientCounts<Plain> counts;
  uint64_t queue = 0;

  OVERLORD_FIELDS(rank, counts, queue)
};
// A user's function that is being asked.
struct FunctionWait {
  std::string function;
  uint64_t step = 0;
  int64_t waiting_ns = 0;
  std::optional<Rank> rank = {};  // in whose process; unset: the planner's own

  OVERLORD_FIELDS(function, step, waiting_ns, rank)
};
std::string function_wait_text(const FunctionWait& wait);
struct PlannerStatus {
  planner::PlannerCounts<Plain> counts;
  std::optional<FunctionWait> waits_for_function;
  storage::JournalCounts<Plain> journal;  // on disk

  OVERLORD_FIELDS(counts, waits_for_function, journal)
};
struct MemoryStatus {
  uint64_t payload_bytes = 0, payload_limit_bytes = 0;
  uint64_t pool_held_bytes = 0, pool_idle_bytes = 0, pool_fresh = 0, pool_reused = 0;

  OVERLORD_FIELDS(payload_bytes, payload_limit_bytes, pool_held_bytes, pool_idle_bytes, pool_fresh,
                  pool_reused)
};
struct EngineStatus {
  PlannerStatus planner;
  std::vector<LoaderStatus> loaders;
  std::vector<ConstructorStatus> constructors;
  std::vector<UnpackStatus> unpacking;  // of sources that have any
  std::vector<ClientStatus> clients;
  MemoryStatus memory;
  runtime::ExecutorStats executor;
  uint64_t queue_depth = 0;

  OVERLORD_FIELDS(planner, loaders, constructors, unpacking, clients, memory, executor, queue_depth)
};

class Engine {
 public:
  virtual ~Engine() = default;

  Callers callers;  // of next(), as bindings count them

  // The next microbatch of `rank`; null at the end of the stream. kDeadline, naming what is waited
  // for, when nothing came in time: call again. One caller per rank at a time.
  Result<model::MicrobatchPtr> next(Rank rank, int64_t timeout_ms) {
    return seats_->next(rank, timeout_ms);
  }
  // Where `rank` stands after what next(rank) has returned; gives its resume state, now or later.
  KeptPlace place(Rank rank) { return seats_->place(rank); }
  // What the trainer of `rank` measured of a step that it has consumed; waits for the verdict.
  Result<protocol::Verdict> report(Rank rank, model::StepFeedback part) {
    return seats_->report(rank, std::move(part));
  }
  // Where the planner asks a user's mixing rule, if the first reporter is hosted here. Closed with
  // the engine, which it does not hold.
  std::shared_ptr<RuleDesk> rule() { return seats_->rule(); }
  // The same of the functions that a strategy names, in every process of ranks.
  std::shared_ptr<CalloutDesk> callouts() { return seats_->callouts(); }
  // Steps from the wish's on, or from the first that is possible, are planned for another mesh, or
  // for other ranks; gives that step, once everybody is ready for it. Asked by several ranks it is
  // one change.
  virtual Result<StepIndex> rebuild(const planner::TreeWish& wish) = 0;
  // From some window on this many slots read the source, at most as many as it may grow to; no byte
  // of the stream changes.
  Status resize(SourceIndex source, uint32_t slots) { return seats_->resize(source, slots); }
  // The mesh of a later tree than the job's own, and its ranks; none: all of the job in order.
  struct TreeNote {
    std::vector<model::Axis> axes;
    std::vector<Rank> ranks;
  };
  TreeNote note_of(uint32_t tree);
  // Wakes every waiting caller with kCancelled and ends all work. Idempotent, any thread.
  virtual void close() = 0;

  virtual EngineStatus status() = 0;
  std::vector<loader::QuarantineNote> quarantine();
  // How long callers of next(rank) have waited so far: what production does not hide.
  uint64_t wait_ns(Rank rank) { return seats_->wait_ns(rank); }
  Digest rank_hash(Rank rank) { return seats_->rank_hash(rank); }
  Digest plan_chain() { return seats_->plan_chain(); }
  Digest content_chain() { return seats_->content_chain(); }
  Digest stream_hash() { return seats_->stream_hash(); }
  const std::vector<Rank>& ranks() const { return seats_->ranks(); }

 protected:
  // What the roles tell, on any thread.
  void note_row(loader::QuarantineNote note);
  void note_tree(uint32_t version, TreeNote note);

  const runtime::BirthProcess process_{};
  runtime::LeftInForks<RankSeats> seats_;  // made when the engine starts

 private:
  std::mutex notes_mutex_;
  std::vector<loader::QuarantineNote> quarantine_ OVERLORD_GUARDED_BY(notes_mutex_);
  std::map<uint32_t, TreeNote> trees_
      OVERLORD_GUARDED_BY(notes_mutex_);  // later ones than the job's own, by version
};

}  // namespace overlord::node
