// EmbeddedEngine: all four roles in the caller's process, on a few threads. Opens no port. Starts
// on an indexed corpus at once, stops within a moment at any point, leaves nothing behind.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/host/consumer.h"
#include "overlord/host/feedback_ledger.h"
#include "overlord/host/open_job.h"
#include "overlord/host/role_host.h"
#include "overlord/node/callout_desk.h"
#include "overlord/node/encoders.h"
#include "overlord/runtime/handoff.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/runtime/thread_executor.h"
#include "overlord/storage/local_storage.h"

namespace overlord::node {

struct EngineOptions {
  model::RuntimeOptions runtime;
  std::vector<std::string> worker_command;  // for Hugging Face tokenizers
  std::string journal_path;                 // empty: in memory
  std::vector<std::string> profile_paths;   // per source: where its costs are written at the end
  std::shared_ptr<CalloutDesk> callouts;    // who asks the functions that the strategy names
};

struct LoaderStatus {
  std::string source;
  uint32_t slot = 0;
  uint64_t queue = 0, in_work = 0, rows_posted = 0, documents = 0, read_bytes = 0, buffer_bytes = 0,
           transform_ns = 0, read_wait_ns = 0, file_state_bytes = 0, bad_rows = 0, blocks_read = 0,
           cache_hits = 0;
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
  std::vector<ClientStatus> clients;
  uint64_t payload_bytes = 0, payload_limit_bytes = 0;
  CalloutStatus callouts;
  runtime::PoolStats pool;
  runtime::ExecutorStats executor;
};

class EmbeddedEngine {
 public:
  static Result<std::unique_ptr<EmbeddedEngine>> start(std::shared_ptr<const host::OpenJob> job,
                                                       std::vector<Rank> ranks,
                                                       EngineOptions options,
                                                       protocol::ResumeState state);
  ~EmbeddedEngine();

  // The next microbatch of `rank`; null at the end of the stream. kDeadline, naming what is waited
  // for, when nothing came in time: call again. One caller per rank at a time.
  Result<model::MicrobatchPtr> next(Rank rank, int64_t timeout_ms);
  // Encoded resume state after what next(rank) has returned. With a metric-driven mixture it waits
  // until every reporter has reported the steps before: kDeadline names the first that is missing.
  Result<std::string> state(Rank rank, int64_t timeout_ms = 0);
  // What the trainer of `rank` measured of a step that it has consumed; waits for the verdict.
  Result<protocol::Verdict> report(Rank rank, model::StepFeedback part);
  // Wakes every waiting caller with kCancelled and ends all work. Idempotent, any thread.
  void close();

  EngineStatus status();
  std::vector<loader::QuarantineNote> quarantine();
  Digest rank_hash(Rank rank);
  Digest plan_chain();
  Digest content_chain();
  Digest stream_hash();
  const std::vector<Rank>& ranks() const { return ranks_; }

 private:
  struct Seat {  // one hosted rank
    explicit Seat(protocol::ResumeState base) : consumer(std::move(base)) {}
    std::mutex mutex;  // the trainer's thread against state() and hashes from another
    host::Consumer consumer;
    runtime::Handoff<client::ReadyStep> steps;
    std::mutex report_mutex;  // one report at a time
    runtime::Handoff<protocol::ReportAnswered> answers;
  };

  EmbeddedEngine(std::shared_ptr<const host::OpenJob> job, std::vector<Rank> ranks,
                 EngineOptions options);
  Status check_feedback() const;
  Status check_count(uint32_t microbatch) const;
  Status check_callouts() const;
  CalloutStatus callout_status();
  Status build(protocol::ResumeState state);
  Result<Seat*> seat(Rank rank);
  Status held_too_much() const;
  bool in_another_process() const;
  Status late_rows_over_budget(const model::StreamState& state);
  std::string explain_wait(Rank rank, StepIndex step);
  void write_profiles();

  std::shared_ptr<const host::OpenJob> job_;
  std::vector<Rank> ranks_;
  EngineOptions options_;
  runtime::SteadyClock clock_;
  std::shared_ptr<runtime::BufferPool> pool_;
  std::unique_ptr<runtime::ThreadExecutor> executor_;
  std::unique_ptr<runtime::Journal> journal_;
  std::unique_ptr<storage::LocalStorage> storage_;
  std::unique_ptr<Encoders> encoders_;
  std::unique_ptr<host::RoleHost> host_;
  std::map<Rank, std::unique_ptr<Seat>> seats_;
  std::mutex ledger_mutex_;
  std::condition_variable ledger_grown_;
  std::unique_ptr<host::FeedbackLedger> ledger_;
  std::mutex quarantine_mutex_;
  std::vector<loader::QuarantineNote> quarantine_;
  int64_t process_ = 0;  // where it was started: its threads live there alone
  std::mutex close_mutex_;
  bool closed_ = false;
};

}  // namespace overlord::node
