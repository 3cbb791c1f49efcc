// EmbeddedEngine: all four roles in the caller's process, on a few threads. Opens no port. Starts
// on an indexed corpus at once, stops within a moment at any point, leaves nothing behind.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/host/open_job.h"
#include "overlord/node/callout_desk.h"
#include "overlord/node/engine.h"
#include "overlord/node/rank_seats.h"
#include "overlord/node/role_runtime.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/host_pinning.h"

namespace overlord::node {

struct EngineOptions {
  model::RuntimeOptions runtime;
  std::vector<std::string> worker_command;    // for Hugging Face tokenizers
  std::string journal_path;                   // empty: in memory
  std::vector<std::string> profile_paths;     // per source: where its costs are written at the end
  std::shared_ptr<CalloutDesk> callouts;      // who asks the functions that the strategy names
  std::shared_ptr<TransformDesk> transforms;  // who calls transforms of lane thread
  std::shared_ptr<transport::HostPinning> pinning;  // of the pool; null: ordinary memory
};

class EmbeddedEngine final : public Engine {
 public:
  static Result<std::unique_ptr<EmbeddedEngine>> start(std::shared_ptr<const host::OpenJob> job,
                                                       std::vector<Rank> ranks,
                                                       EngineOptions options,
                                                       protocol::ResumeState state);
  ~EmbeddedEngine() override;

  Result<model::MicrobatchPtr> next(Rank rank, int64_t timeout_ms) override;
  KeptPlace place(Rank rank) override { return seats_->place(rank); }
  Result<protocol::Verdict> report(Rank rank, model::StepFeedback part) override;
  std::shared_ptr<RuleDesk> rule() override { return seats_->rule(); }
  Result<StepIndex> rebuild(const model::Mesh& mesh, std::optional<StepIndex> step) override;
  std::vector<model::Axis> axes_of(uint32_t tree) override;
  void close() override;

  EngineStatus status() override;
  std::vector<loader::QuarantineNote> quarantine() override;
  uint64_t wait_ns(Rank rank) override { return seats_->wait_ns(rank); }
  Digest rank_hash(Rank rank) override { return seats_->rank_hash(rank); }
  Digest plan_chain() override { return seats_->plan_chain(); }
  Digest content_chain() override { return seats_->content_chain(); }
  Digest stream_hash() override { return seats_->stream_hash(); }
  const std::vector<Rank>& ranks() const override { return ranks_; }

 private:
  EmbeddedEngine(std::shared_ptr<const host::OpenJob> job, std::vector<Rank> ranks,
                 EngineOptions options);
  Status check_feedback() const;
  Status check_count(uint32_t microbatch) const;
  Status check_callouts() const;
  CalloutStatus callout_status();
  Status build(protocol::ResumeState state);
  void seat_ranks(const protocol::ResumeState& state);
  Status held_too_much() const;
  bool in_another_process() const;
  Status late_rows_over_budget(const model::StreamState& state);
  std::string explain_wait(Rank rank, StepIndex step);
  void write_profiles(int64_t elapsed_ns);
  host::RoleHost& host() { return runtime_->host(); }

  std::shared_ptr<const host::OpenJob> job_;
  std::vector<Rank> ranks_;
  EngineOptions options_;
  runtime::SteadyClock clock_;
  std::unique_ptr<RoleRuntime> runtime_;
  std::unique_ptr<RankSeats> seats_;
  std::mutex quarantine_mutex_;
  std::vector<loader::QuarantineNote> quarantine_;
  int64_t process_ = 0;  // where it was started: its threads live there alone
  std::mutex trees_mutex_;
  std::map<uint32_t, std::vector<model::Axis>> trees_;  // later ones than the job's own, by version
  std::mutex close_mutex_;
  bool closed_ = false;
};

}  // namespace overlord::node
