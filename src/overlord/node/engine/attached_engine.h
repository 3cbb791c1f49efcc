// AttachedEngine: the trainer's end of a node on the same host. Hosts the clients of its ranks and
// nothing else: what they read lies in memory that the constructors' process owns, mapped for
// reading. It opens no file of any source and no port. When the node dies, what is ready is read
// on, and the next one is called, which one of the ranks starts. Its parts: attached_engine.cc, and
// attached_recovery.cc for a node that is gone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/node/engine/engine.h"
#include "overlord/node/recovery/node_losses.h"
#include "overlord/node/recovery/node_starter.h"
#include "overlord/node/recovery/rank_reach.h"
#include "overlord/node/status/status_codec.h"
#include "overlord/node/status/trace_switch.h"
#include "overlord/node/wire_options.h"
#include "overlord/protocol/control.h"
#include "overlord/protocol/one_of.h"
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
  int64_t recovery_ms = 0;                          // until another one does when it has died
};

class AttachedEngine final : public Engine {
 public:
  // Waits until all ranks of the node have attached. Null: there is no node, or it has ended
  // without a word and nobody can start it again.
  static Result<std::unique_ptr<AttachedEngine>> attach(AttachRequest request);
  ~AttachedEngine() override { close(); }

  Result<StepIndex> rebuild(const planner::TreeWish& wish) override;
  void close() override;
  EngineStatus status() override;

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
    runtime::LeftInForks<Loop> loop;
    runtime::LeftInForks<client::Client> client;
  };

  explicit AttachedEngine(AttachRequest request);
  Status open();
  Status wait_for_welcome();
  RankSeats::Wiring seat_wiring();
  Status start_clients();
  transport::CarrierOptions carrier_options();
  void on_control(const protocol::Control& control);
  void hear(const protocol::Welcome& welcome);
  void hear(const protocol::Refused& refused) { fail(refused.status); }
  void hear(const protocol::Roster& roster);
  void hear(const protocol::TreeTold& tree);
  void hear(const protocol::TreeAnswered& answer);
  void hear(const protocol::FedBack& fed_back);
  void hear(const protocol::RowNoted& note);
  void hear(const protocol::StatusTold& told);
  void hear(const protocol::Beat&) { losses_.answered(); }
  // Of the links, and for others.
  template <protocol::OneOf<protocol::Hello, protocol::SegmentShared, protocol::SegmentForgotten,
                            protocol::LeaseReleased, protocol::Attach, protocol::StatusAsked,
                            protocol::Detach, protocol::TreeAsked, protocol::TreeTaken,
                            protocol::Join, protocol::GroupAsked, protocol::GroupUnasked,
                            protocol::GroupGone, protocol::GroupsStarve, protocol::HostPressed>
                Other>
  void hear(const Other&) {}
  void take_tree(const protocol::TreeTold& tree);
  void call_home_of(const protocol::Address& role);
  void restart(Rank rank, const protocol::TreeTold& tree,
               const std::optional<protocol::Address>& constructor);
  void tell_clients(const protocol::PeerRestarted& restarted);
  void attach_to_node();
  void on_lost(const std::string& peer);
  void no_node(const Status& status);
  void look_for_its_end();
  void wait_for_node(int64_t since_ns);
  void served_again(const protocol::Welcome& welcome);
  void fail(const Status& status);
  void stop_with_others(const Status& status);
  Status stopped_by_others() const;
  Result<bool> may_begin(Rank rank, StepIndex step, int64_t timeout_ms);
  Status begin(Rank rank, StepIndex step);
  void hand_over(Rank rank, client::ReadyStep ready);
  void deliver(protocol::Envelope envelope);
  void beat();
  bool tell_status();  // false: nobody is there to hear it
  bool node_is_silent();
  Result<model::MicrobatchPtr> give_out(model::MicrobatchPtr batch);
  Status explain_wait(Rank rank, StepIndex step);
  bool planner_waits_for_disk();
  bool waited_long(Rank rank, StepIndex step);
  Status late_rows_over_budget(const model::StreamState& at_end);
  void add_clients(EngineStatus* out);

  AttachRequest request_;
  TraceSwitch trace_;
  runtime::SteadyClock clock_;
  runtime::LeftInForks<transport::Carrier> carrier_;
  std::map<Rank, Hosted> hosted_;
  std::shared_ptr<Held> held_ = std::make_shared<Held>();
  std::unique_ptr<RankReach> reach_;  // once the clients are there

  std::mutex mutex_;  // of what the loop's thread tells the caller's
  std::condition_variable changed_;
  protocol::Welcome welcome_;
  bool connected_ OVERLORD_GUARDED_BY(mutex_) = false;
  bool welcomed_ OVERLORD_GUARDED_BY(mutex_) = false;
  Status failure_ OVERLORD_GUARDED_BY(mutex_);
  bool no_node_ OVERLORD_GUARDED_BY(mutex_) =
      false;  // nobody answered, or nobody is there any more
  std::map<Rank, std::pair<StepIndex, int64_t>> waits_
      OVERLORD_GUARDED_BY(mutex_);  // for ranks that are gone: at which step, and since when
  int64_t stopped_ns_ OVERLORD_GUARDED_BY(mutex_) = 0;  // since when no node is waited for
  int64_t begun_ns_ OVERLORD_GUARDED_BY(mutex_) = 0;    // when the newest step was
  uint64_t statuses_ OVERLORD_GUARDED_BY(mutex_) = 0;
  NodeStatus node_status_ OVERLORD_GUARDED_BY(mutex_);
  std::set<SampleId> noted_;               // rows in quarantine: each counts once
  std::map<std::string, uint32_t> known_;  // generations of role processes
  std::map<uint32_t, protocol::TreeTold> trees_
      OVERLORD_GUARDED_BY(mutex_);  // later ones than the job's own, by version
  uint64_t questions_ OVERLORD_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, protocol::TreeAsked> asked_ OVERLORD_GUARDED_BY(mutex_);  // not answered
  uint64_t status_waits_ OVERLORD_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Result<StepIndex>> answers_ OVERLORD_GUARDED_BY(mutex_);
  // Of the loop's thread alone.
  protocol::Roster roster_;
  bool started_ = false;                   // the clients are there
  std::vector<protocol::Envelope> early_;  // came before that
  bool closed_ = false;
  bool welcomed_once_ = false;
  NodeLosses losses_;
  uint32_t term_ = 1;  // of the planner
  std::string run_;    // as welcomed
  std::atomic<bool> node_missing_{false};
  runtime::LeftInForks<NodeStarter> starter_;
  runtime::LeftInForks<transport::Endpoint> endpoint_;  // last: its loop uses all of the above
};

}  // namespace overlord::node
