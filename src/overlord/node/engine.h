// Engine: what a trainer's process holds of a running job, however the roles are hosted. One caller
// per rank at a time; everything else from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/mesh.h"
#include "overlord/model/microbatch.h"
#include "overlord/node/callers.h"
#include "overlord/node/rule_desk.h"
#include "overlord/node/state_book.h"
#include "overlord/protocol/messages.h"
#include "overlord/roles/loader/role.h"
#include "overlord/runtime/buffer.h"
#include "overlord/runtime/thread_executor.h"

namespace overlord::node {

struct LoaderStatus {
  std::string source;
  uint32_t slot = 0;
  uint64_t queue = 0, in_work = 0, rows_posted = 0, documents = 0, read_bytes = 0, buffer_bytes = 0,
           transform_ns = 0, read_wait_ns = 0, file_state_bytes = 0, bad_rows = 0, blocks_read = 0,
           cache_hits = 0, decode_ns = 0, tokenise_ns = 0, media_ns = 0, sent_bytes = 0;
  uint64_t python_ns = 0, decode_in_bytes = 0, decode_out_bytes = 0, tokenise_in_bytes = 0,
           tokenise_out_bytes = 0, media_in_bytes = 0, media_out_bytes = 0, media_blobs = 0;
  // Memory now, and the most it was: read and not decoded, decoded blocks, with constructors, and
  // resident of the processes that tokenise its rows or run its Python.
  uint64_t reading_bytes = 0, reading_peak_bytes = 0, buffer_peak_bytes = 0, in_flight_bytes = 0,
           in_flight_peak_bytes = 0, worker_bytes = 0, worker_peak_bytes = 0;
  uint64_t empty_rows = 0;  // skipped
};
// What constructors spent on the packed media of a source.
struct UnpackStatus {
  std::string source;
  uint64_t blobs = 0, unpack_ns = 0, in_bytes = 0, out_bytes = 0, held_bytes = 0, peak_bytes = 0;
};
struct ConstructorStatus {
  uint32_t bucket = 0;
  uint64_t steps_ready = 0, steps_held = 0, payloads = 0, assemble_ns = 0, bytes_assembled = 0;
};
struct ClientStatus {
  Rank rank = 0;
  uint64_t steps_arrived = 0, steps_consumed = 0, microbatches = 0, wait_ns = 0, queue = 0;
};
// Users' functions: answers so far, the time they took, and who is being asked.
struct CalloutStatus {
  uint64_t answers = 0, answer_ns = 0;
  std::string waits_for;  // empty: for none
  uint64_t step = 0;
  int64_t waiting_ns = 0;
};
struct EngineStatus {
  int64_t predicted_ns = 0, arrival_ns = 0, fullest_ns = 0, bound_ns = 0;  // PlannerProbe
  int64_t encoder_predicted_ns = 0, encoder_arrival_ns = 0;
  int64_t encoder_mean_ns = 0, encoder_bound_ns = 0;
  uint64_t segments = 0, segments_waited = 0, steps_waited = 0;  // as well
  uint32_t longest_wait = 0;
  uint64_t plans = 0, planning_ns = 0, planner_waits = 0, meta_windows = 0, queue_depth = 0;
  std::vector<LoaderStatus> loaders;
  std::vector<ConstructorStatus> constructors;
  std::vector<UnpackStatus> unpacking;  // of sources that have any
  std::vector<ClientStatus> clients;
  uint64_t payload_bytes = 0, payload_limit_bytes = 0;
  CalloutStatus callouts;
  runtime::PoolStats pool;
  runtime::ExecutorStats executor;
};

class Engine {
 public:
  virtual ~Engine() = default;

  Callers callers;  // of next(), as bindings count them

  // The next microbatch of `rank`; null at the end of the stream. kDeadline, naming what is waited
  // for, when nothing came in time: call again. One caller per rank at a time.
  virtual Result<model::MicrobatchPtr> next(Rank rank, int64_t timeout_ms) = 0;
  // Where `rank` stands after what next(rank) has returned; gives its resume state, now or later.
  virtual KeptPlace place(Rank rank) = 0;
  // What the trainer of `rank` measured of a step that it has consumed; waits for the verdict.
  virtual Result<protocol::Verdict> report(Rank rank, model::StepFeedback part) = 0;
  // Where the planner asks a user's mixing rule, if the first reporter is hosted here. Closed with
  // the engine, which it does not hold.
  virtual std::shared_ptr<RuleDesk> rule() = 0;
  // Steps from `step` on, or from the first that is possible, are planned for another mesh of the
  // same ranks; gives that step, once everybody is ready for it. Asked by several ranks it is one
  // change.
  virtual Result<StepIndex> rebuild(const model::Mesh& mesh, std::optional<StepIndex> step) = 0;
  // The axes of the mesh of a later tree than the job's own.
  virtual std::vector<model::Axis> axes_of(uint32_t tree) = 0;
  // Wakes every waiting caller with kCancelled and ends all work. Idempotent, any thread.
  virtual void close() = 0;

  virtual EngineStatus status() = 0;
  virtual std::vector<loader::QuarantineNote> quarantine() = 0;
  // How long callers of next(rank) have waited so far: what production does not hide.
  virtual uint64_t wait_ns(Rank rank) = 0;
  virtual Digest rank_hash(Rank rank) = 0;
  virtual Digest plan_chain() = 0;
  virtual Digest content_chain() = 0;
  virtual Digest stream_hash() = 0;
  virtual const std::vector<Rank>& ranks() const = 0;
};

}  // namespace overlord::node
