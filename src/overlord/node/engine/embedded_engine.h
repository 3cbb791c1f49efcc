// EmbeddedEngine: all four roles in the caller's process, on a few threads. Opens no port. Starts
// on an indexed corpus at once, stops within a moment at any point, leaves nothing behind.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/host/open_job.h"
#include "overlord/node/engine/engine.h"
#include "overlord/node/role_runtime.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/shared/host_pinning.h"

namespace overlord::node {

struct EngineOptions {
  model::RuntimeOptions runtime;
  std::vector<std::string> worker_command;    // for Hugging Face tokenizers
  std::string journal_path;                   // a folder; empty: in memory
  std::vector<std::string> profile_paths;     // per source: where its costs are written at the end
  std::shared_ptr<TransformDesk> transforms;  // who calls transforms of lane thread
  std::shared_ptr<transport::HostPinning> pinning;  // of the pool; null: ordinary memory
};

class EmbeddedEngine final : public Engine {
 public:
  static Result<std::unique_ptr<EmbeddedEngine>> start(std::shared_ptr<const host::OpenJob> job,
                                                       std::vector<Rank> ranks,
                                                       EngineOptions options,
                                                       protocol::ResumeState state);
  ~EmbeddedEngine() override { close(); }

  Result<StepIndex> rebuild(const planner::TreeWish& wish) override;
  void close() override;
  EngineStatus status() override;

 private:
  EmbeddedEngine(std::shared_ptr<const host::OpenJob> job, std::vector<Rank> ranks,
                 EngineOptions options);
  Status check_feedback() const;
  Status check_count(uint32_t microbatch) const;
  Status check_callouts() const;
  Status build(protocol::ResumeState state);
  std::string own_journal() const;
  void seat_ranks(const protocol::ResumeState& state);
  Status held_too_much() const;
  Status late_rows_over_budget(const model::StreamState& state);
  std::string explain_wait(Rank rank, StepIndex step);
  void write_profiles(int64_t elapsed_ns);
  host::RoleHost& host() { return runtime_->host(); }

  std::shared_ptr<const host::OpenJob> job_;
  std::vector<Rank> ranks_;
  EngineOptions options_;
  runtime::SteadyClock clock_;
  runtime::LeftInForks<RoleRuntime> runtime_;
  std::mutex close_mutex_;
  bool closed_ OVERLORD_GUARDED_BY(close_mutex_) = false;
};

}  // namespace overlord::node
