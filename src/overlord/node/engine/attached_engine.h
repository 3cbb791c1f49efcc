// AttachedEngine: the trainer's end of a node on the same host. Hosts the clients of its ranks and
// nothing else: what they read lies in memory that the constructors' process owns, mapped for
// reading. It opens no file of any source and no port.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/node/engine.h"
#include "overlord/node/rank_seats.h"
#include "overlord/node/status_codec.h"
#include "overlord/node/trace_switch.h"
#include "overlord/node/wire_options.h"
#include "overlord/protocol/control.h"
#include "overlord/roles/client/role.h"
#include "overlord/runtime/role_loop.h"
#include "overlord/runtime/steady_clock.h"
#include "overlord/transport/carrier.h"
#include "overlord/transport/endpoint.h"

namespace overlord::node {

struct AttachRequest {
  std::string directory;
  Digest job;
  uint32_t attempt = 1;
  std::vector<Rank> ranks;
  std::string state;  // encode_resume_state; empty: the stream's start
  protocol::AllowedChanges allowed;
  WireOptions wire;                                 // where constructors may be on other hosts
  std::shared_ptr<transport::HostPinning> pinning;  // of shared memory; null: nobody pins it
  int64_t connect_ms = 2'000;                       // until the node answers at all
  int64_t timeout_ms = 300'000;                     // until it serves
};

class AttachedEngine final : public Engine {
 public:
  // Waits until all ranks of the node have attached. Null: there is no node, or it has ended
  // without a word.
  static Result<std::unique_ptr<AttachedEngine>> attach(AttachRequest request);
  ~AttachedEngine() override;

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
  const std::vector<Rank>& ranks() const override { return request_.ranks; }

  const protocol::Welcome& welcome() const { return welcome_; }
  Result<NodeStatus> node_status(int64_t timeout_ms);
  uint64_t held_bytes() const { return held_->shared; }

 private:
  using Loop = runtime::RoleLoop<runtime::Task>;
  struct Held {  // by what was given out and is still held
    std::atomic<uint64_t> shared{0};
    std::atomic<uint64_t> copied{0};
  };
  struct Hosted {  // one rank
    std::unique_ptr<Loop> loop;
    std::unique_ptr<client::Client> client;
  };

  explicit AttachedEngine(AttachRequest request);
  Status open();
  Status wait_for_welcome();
  Status start_clients();
  transport::CarrierOptions carrier_options();
  void on_control(protocol::Control control);
  void on_welcome(const protocol::Welcome& welcome);
  void on_roster(const protocol::Roster& roster);
  void on_tree(const protocol::TreeTold& tree);
  void take_tree(const protocol::TreeTold& tree);
  void on_lost(const std::string& peer);
  void fail(const Status& status);
  void deliver(protocol::Envelope envelope);
  void beat();
  Result<model::MicrobatchPtr> give_out(model::MicrobatchPtr batch);
  std::string explain_wait(Rank rank, StepIndex step);
  Status late_rows_over_budget(const model::StreamState& at_end);
  void add_clients(EngineStatus* out);

  AttachRequest request_;
  int64_t process_ = 0;
  TraceSwitch trace_;
  runtime::SteadyClock clock_;
  std::unique_ptr<transport::Carrier> carrier_;
  std::unique_ptr<RankSeats> seats_;
  std::map<Rank, Hosted> hosted_;
  std::shared_ptr<Held> held_ = std::make_shared<Held>();

  std::mutex mutex_;  // of what the loop's thread tells the caller's
  std::condition_variable changed_;
  protocol::Welcome welcome_;
  bool connected_ = false;
  bool welcomed_ = false;
  Status failure_;
  bool no_node_ = false;  // nobody answered, or nobody is there any more
  uint64_t statuses_ = 0;
  NodeStatus node_status_;
  std::vector<loader::QuarantineNote> quarantine_;
  std::set<SampleId> noted_;                      // those in `quarantine_`: a row counts once
  std::map<std::string, uint32_t> known_;         // generations of role processes
  std::map<uint32_t, protocol::TreeTold> trees_;  // later ones than the job's own, by version
  uint64_t questions_ = 0;
  std::map<uint64_t, Result<StepIndex>> answers_;
  // Of the loop's thread alone.
  protocol::Roster roster_;
  bool started_ = false;  // the clients are there
  bool closed_ = false;
  std::atomic<bool> node_died_{false};
  std::unique_ptr<transport::Endpoint> endpoint_;  // last: its loop uses all of the above
};

}  // namespace overlord::node
