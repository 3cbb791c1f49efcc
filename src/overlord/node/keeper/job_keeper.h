// JobKeeper: the world of a keeper in a node process: links to trainers and role processes, the
// planner, child processes, profiles and metrics. What is decided is decided by roles/keeper. Its
// parts: keeper.cc, keeper_recovery.cc for what outlives a node, and keeper_profiles.cc for what
// sources cost. Private to them.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "overlord/node/hosts/hosts_cluster.h"
#include "overlord/node/hosts/lent_groups.h"
#include "overlord/node/keeper/keeper.h"
#include "overlord/node/keeper/keeper_metrics.h"
#include "overlord/node/recovery/left_groups.h"
#include "overlord/node/role_runtime.h"
#include "overlord/node/status/profile.h"
#include "overlord/node/status/run_notes.h"
#include "overlord/node/status/status_codec.h"
#include "overlord/node/status/trace_switch.h"
#include "overlord/roles/keeper/role.h"
#include "overlord/runtime/descriptor.h"
#include "overlord/transport/carrier.h"
#include "overlord/transport/endpoint.h"

namespace overlord::node {

class JobKeeper final : public keeper::KeeperWorld {
 public:
  JobKeeper(const KeeperArguments& arguments, const protocol::JobFile& file);
  ~JobKeeper() override;

  Status open();
  void wait() { ended_.get_future().get(); }
  // Any thread: everybody is told why, and the node ends at once.
  void end_because(const Status& why);
  // After wait(): why the job was not served, if it was not.
  std::optional<keeper::FailureBook> failure() const { return keeper_->state().failure(); }

  int64_t now_ns() override { return clock_.now_ns(); }
  void on_loop(runtime::Task task) override { endpoint_->post(std::move(task)); }
  void after(int64_t delay_ns, runtime::Task task) override;
  keeper::Begun begin(const keeper::Begin& attempt) override;
  runtime::Cluster& cluster() override { return *serving_->cluster; }
  void carry_out(const keeper::Tell& tell) override;
  void carry_out(const keeper::Drop& drop) override;
  void carry_out(const keeper::CallLead&) override;
  void carry_out(const keeper::SetRoster& set) override;
  void carry_out(const keeper::StopServing&) override { stop_serving(); }
  void carry_out(const keeper::Say& say) override;
  void carry_out(const keeper::TreeReady& ready) override;
  void carry_out(const keeper::RebuildTree& rebuild) override;
  void carry_out(const keeper::TellStatus& tell) override;
  void carry_out(const keeper::NoteStatus& note) override;
  void carry_out(const keeper::ForgetStatus& forget) override;
  void carry_out(const keeper::TellUnpacking&) override;
  void carry_out(const keeper::End&) override { ended_.set_value(); }
  // After wait(): another node serves on with what this one has left.
  bool superseded() const { return superseded_; }

 private:
  struct Serving {  // one attempt
    runtime::Descriptor job;
    std::unique_ptr<HostsCluster> cluster;
    std::unique_ptr<RoleRuntime> planner;
    std::string run;  // of its trainers
    std::vector<plan::DecodeChoice> decoding;
    std::function<void()> tree_ready;  // of the tree that is being told
    ProfileBook profiles;
    int64_t begin_ns = 0, profiled_ns = 0;  // profiles were written
  };

  keeper::KeeperJob keeper_job() const;
  keeper::PlacementOptions placing() const;
  Status open_endpoint();
  transport::CarrierOptions carrier_options();
  void receive(keeper::Input input) { keeper_->receive(std::move(input)); }
  Result<protocol::ResumeState> first_state(const keeper::Begin& attempt) const;
  Status prepare(const keeper::Begin& attempt, const protocol::ResumeState& state);
  std::vector<plan::DecodeChoice> choose_decoding() const;
  Status find_left();
  uint32_t generation() const { return claims() ? arguments_.claim : left_.keeper + 1; }
  bool comes_again() const { return generation() > 1; }
  bool claims() const { return arguments_.claims != nullptr; }
  Status still_leads() const;
  void look_for_other_leads();
  Status see_mark(const protocol::Control& control) const;
  void tell_groups(LeftGroups groups) const;
  Status start_cluster(const keeper::Begin& attempt, const std::string& state);
  void hear(const std::string& peer, protocol::Control control);
  LentGroups& lent();
  protocol::Roster roster_of_living(const protocol::Roster& roster) const;
  void add_folded(keeper::Begun* begun) const;
  std::string journal_folder() const;
  keeper::TreePlaced placed_tree(const planner::TreeChanged& change) const;
  Status start_planner(const keeper::Begin& attempt, const protocol::ResumeState& state);
  void change_tree(const planner::TreeChanged& change, const std::function<void()>& ready);
  void stop_serving();
  void watch();
  void look_for_other_nodes();
  std::set<std::string> starved_groups();
  NodeStatus status();
  std::function<void()> profile_writing();
  void write_profiles_now_and_then();
  void write_last_profiles();

  const KeeperArguments arguments_;
  const protocol::JobFile& file_;
  const std::vector<Rank> local_;
  const bool follows_;  // another node plans
  runtime::SteadyClock clock_;
  std::shared_ptr<const host::OpenJob> job_;
  std::shared_ptr<const model::ViewTable> views_;
  std::unique_ptr<transport::Carrier> carrier_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  LeftGroups left_;  // by the node before this one
  // All below belongs to the loop's thread.
  std::unique_ptr<keeper::Keeper> keeper_;
  int64_t watched_ns_ = 0;  // the last look at who lives
  std::unique_ptr<Serving> serving_;
  std::map<std::string, uint32_t> known_;  // generations of processes
  std::unique_ptr<LentGroups> lent_;       // to the lead, where it is another
  std::map<std::string, std::vector<std::string>> starved_there_;  // by joined host
  keeper::RestartBook restarts_;                                   // that the planner was told of
  std::map<std::string, EngineStatus> told_;                       // by process, newest
  RunNotes notes_of_run_;
  TraceSwitch trace_;
  std::future<void> writing_;             // profiles, while the job runs
  std::future<Status> leading_;           // whether this host still leads
  int64_t led_ns_ = 0;                    // the last look
  std::unique_ptr<MetricsDoor> metrics_;  // of nobody's thread but its own
  std::promise<void> ended_;
  std::atomic<bool> superseded_{false};
};

}  // namespace overlord::node
