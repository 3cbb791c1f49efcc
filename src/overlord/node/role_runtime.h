// RoleRuntime: roles of a job with real seams in this process: threads, files, tokenizers, memory
// that others can map. What an embedded engine, a role process and a node are made of.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/host/open_job.h"
#include "overlord/host/role_host.h"
#include "overlord/node/engine/engine.h"
#include "overlord/node/functions/batch_transforming.h"
#include "overlord/node/functions/encoders.h"
#include "overlord/node/functions/media_functions.h"
#include "overlord/runtime/encoder_costs.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/runtime/thread_executor.h"
#include "overlord/transport/shared/shared_pool.h"

namespace overlord::node {

struct RoleRuntimeOptions {
  std::vector<std::string> worker_command;
  std::string journal;                          // folder of this planner's; empty: in memory
  std::shared_ptr<transport::SharedPool> pool;  // null: private memory
  uint64_t idle_bytes = 0;                      // of private memory, kept warm for the next batch
  planner::Callouts* callouts = nullptr;        // users' functions; where the planner is embedded
  std::shared_ptr<TransformDesk> transforms = nullptr;  // where Python runs in this process
  bool begun = false;  // ranks have been served by a planner before this one, which had the journal
};

class RoleRuntime {
 public:
  // `start` says which roles; its callbacks come on role loops. Nothing runs before start_roles().
  static Result<std::unique_ptr<RoleRuntime>> make(
      host::HostStart start, runtime::Transport<protocol::Envelope>* transport,
      RoleRuntimeOptions options);
  ~RoleRuntime();

  void start_roles() {
    begin_ns_ = clock_.now_ns();
    host_->start();
  }
  void stop();
  host::RoleHost& host() { return *host_; }
  const host::OpenJob& job() const { return *job_; }
  // What the roles here do; without clients.
  EngineStatus status();
  // Which user's function the planner waits for.
  std::optional<FunctionWait> asked_function();
  uint64_t held_bytes() const { return pool_->stats().held_bytes; }
  uint32_t term() const { return term_; }  // of the planner
  // What the journal told the planner; null: it began from the trainers' state.
  const std::shared_ptr<const planner::JournalFold>& folded() const { return folded_; }
  // Since its roles were started.
  int64_t elapsed_ns() { return clock_.now_ns() - begin_ns_; }

 private:
  RoleRuntime() = default;
  Status build(host::HostStart start, runtime::Transport<protocol::Envelope>* transport,
               RoleRuntimeOptions options);
  LoaderStatus loader_status(const host::RoleHost::LoaderView& view);
  uint64_t tokenised_ns(SourceIndex source) const;
  void weigh_workers();

  std::shared_ptr<const host::OpenJob> job_;
  bool has_planner_ = false;
  runtime::SteadyClock clock_;
  std::shared_ptr<runtime::BufferPool> pool_;
  std::unique_ptr<runtime::ThreadExecutor> executor_;
  std::unique_ptr<runtime::ThreadExecutor> spare_executor_;  // null: nothing is read by shadows
  std::unique_ptr<runtime::Journal> journal_;
  std::unique_ptr<runtime::Storage> storage_, scratch_storage_;
  std::unique_ptr<Encoders> encoders_;
  std::unique_ptr<MediaFunctions> media_functions_;
  std::unique_ptr<runtime::BatchTransform> batch_transform_;  // null: the job has none
  std::unique_ptr<host::RoleHost> host_;
  int64_t begin_ns_ = 0;
  uint32_t term_ = 1;
  std::shared_ptr<const planner::JournalFold> folded_;
  struct Workers {                                 // of a source's encoder
    const runtime::EncoderCosts* costs = nullptr;  // null: it has none
    uint64_t now_bytes = 0, peak_bytes = 0, python_ns = 0;
  };
  std::mutex workers_mutex_;
  std::map<SourceIndex, Workers> workers_ OVERLORD_GUARDED_BY(workers_mutex_);
};

}  // namespace overlord::node
