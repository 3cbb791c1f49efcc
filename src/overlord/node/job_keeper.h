// Keeper: what a node process does for its job. Admits trainers and role processes, starts and
// supervises the latter, hosts the planner, tells everybody where roles live. Its parts: keeper.cc,
// keeper_trees.cc for a mesh that changes, keeper_profiles.cc for what sources cost,
// keeper_failures.cc for what cannot be served. Private to them.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "overlord/host/supervisor.h"
#include "overlord/node/attach_book.h"
#include "overlord/node/keeper.h"
#include "overlord/node/keeper_metrics.h"
#include "overlord/node/process_cluster.h"
#include "overlord/node/profile.h"
#include "overlord/node/role_runtime.h"
#include "overlord/node/run_notes.h"
#include "overlord/node/status_codec.h"
#include "overlord/node/trace_switch.h"
#include "overlord/node/tree_rollout.h"
#include "overlord/node/welcome.h"
#include "overlord/transport/carrier.h"
#include "overlord/transport/endpoint.h"

namespace overlord::node {

class Keeper {
 public:
  Keeper(const KeeperArguments& arguments, const protocol::JobFile& file)
      : arguments_(arguments),
        file_(file),
        local_(arguments.local.empty() ? file.ranks : arguments.local),
        follows_(arguments.wire.several_hosts() && !arguments.wire.leads),
        book_(follows_ ? local_ : file.ranks, arguments.job),
        notes_of_run_(arguments.directory, arguments.run, arguments.job),
        trace_(arguments.directory, "node") {}
  ~Keeper();

  Status open();
  void wait() { ended_.get_future().get(); }
  // Any thread: everybody is told why, and the node ends at once.
  void end_because(const Status& why);
  // After wait(): why the job was not served, if it was not.
  std::optional<FailureBook> failure() const { return failed_; }

 private:
  struct Serving {  // one attempt
    transport::Descriptor job;
    std::unique_ptr<ProcessCluster> cluster;
    std::unique_ptr<host::Supervisor> supervisor;
    std::unique_ptr<RoleRuntime> planner;
    std::unique_ptr<TreeRollout> trees;
    protocol::ResumeState state;
    bool welcomed = false;
    std::set<std::string> told;  // followers that were
    ProfileBook profiles;
    int64_t begin_ns = 0, profiled_ns = 0;  // profiles were written
  };

  transport::CarrierOptions carrier_options();
  Status admit(const protocol::Hello& hello);
  void on_connected(const protocol::Hello& hello);
  void on_lost(const std::string& peer);
  void on_control(const std::string& peer, protocol::Control control);
  void on_attach(const std::string& peer, const protocol::Attach& attach);
  void on_beat(const std::string& peer, const protocol::Beat& beat);
  void on_ended(const host::GroupEnd& end);
  void leave(const std::string& peer);
  bool refused_before(const std::string& peer, const protocol::Attach& attach);
  void refuse(const std::string& peer, const protocol::Attach& attach, const Status& why);
  void give_up_waiting();
  void begin_anew();

  Status serve();
  Status start_planner();
  std::unique_ptr<TreeRollout> tree_rollout();
  void on_tree_asked(const std::string& peer, const protocol::TreeAsked& asked);
  void place_tree(const planner::TreeChanged& change);
  PlacementOptions placing() const;
  Status start_processes();
  void stop_serving();
  void welcome_all();
  protocol::Welcome welcome_for(const std::vector<Rank>& ranks) const;
  HostRosters rosters() const;
  protocol::Roster roster() const { return rosters().all(); }
  void on_roster(const std::string& peer, const protocol::Roster& roster);
  void on_lead(const protocol::Welcome& welcome);
  void roster_changed();
  Status open_endpoint();
  void tell_trainers(const protocol::Control& control);
  void tell_processes(const protocol::Control& control);
  // `refused`: who has been told already.
  void give_up(const Status& status, const protocol::Attach* refused = nullptr);
  void watch_silence();
  void look_for_other_nodes();
  NodeStatus status();
  void hear_last_words(std::function<void()> then);
  void on_last_words(const std::string& peer, const protocol::StatusTold& told);
  void part();
  void tell_lead_of_unpacking();
  std::function<void()> profile_writing();
  void write_profiles_now_and_then();
  void write_last_profiles();
  void end();

  const KeeperArguments arguments_;
  const protocol::JobFile& file_;
  const std::vector<Rank> local_;
  const bool follows_;  // another node plans
  runtime::SteadyClock clock_;
  std::shared_ptr<const host::OpenJob> job_;
  std::shared_ptr<const model::ViewTable> views_;
  std::vector<uint32_t> buckets_;
  std::unique_ptr<transport::Carrier> carrier_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  // All below belongs to the loop's thread.
  AttachBook book_;
  std::map<std::string, AttachBook::Connection> connections_;  // of trainers that have attached
  std::map<AttachBook::Connection, std::string> peers_;
  AttachBook::Connection last_connection_ = 0;
  std::map<std::string, uint32_t> pids_;
  std::map<std::string, EngineStatus> told_;           // by process, newest
  std::map<std::string, std::string> wires_;           // of role processes: where others call them
  std::map<std::string, protocol::Roster> elsewhere_;  // by node of another host
  std::optional<protocol::Welcome> lead_;              // what the lead has said
  std::map<SampleId, protocol::RowNoted> notes_;       // a restarted loader finds rows again
  std::unique_ptr<Serving> serving_;
  uint32_t generation_base_ = 1;
  RunNotes notes_of_run_;
  TraceSwitch trace_;
  std::function<void()> parting_;  // what is done once all of `unheard_` have said what they did
  std::set<std::string> unheard_;
  uint64_t partings_ = 0;
  std::future<void> writing_;             // profiles, while the job runs
  std::unique_ptr<MetricsDoor> metrics_;  // of nobody's thread but its own
  std::optional<FailureBook> failed_;     // the attempt that is there
  std::optional<FailureBook> earlier_;    // one that has left: its late ranks are told as well
  uint64_t failures_ = 0;
  bool over_ = false;
  std::promise<void> ended_;
};

}  // namespace overlord::node
