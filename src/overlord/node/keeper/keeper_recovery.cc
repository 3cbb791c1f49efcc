// What outlives a node and is found by the next: role processes, and the journal.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "overlord/node/drawn_once.h"
#include "overlord/node/keeper/job_keeper.h"
#include "overlord/node/keeper/role_cluster.h"
#include "overlord/node/recovery/rank_reach.h"
#include "overlord/node/run_journal.h"
#include "overlord/roles/keeper/shadows.h"
#include "overlord/roles/planner/tree.h"

namespace overlord::node {
// In the directory of a node that died, and nowhere else, there are groups.
Status JobKeeper::find_left() {
  if (!arguments_.comes_back()) return {};
  Result<LeftGroups> left = find_groups(arguments_.directory);
  // A file that cannot be read names nobody whom we could adopt: those processes are refused and
  // end.
  if (left.ok()) left_ = std::move(*left);
  if (left_.keeper > 0) {
    carry_out(keeper::Say{"the node of this host is started again, for the " +
                          std::to_string(left_.keeper) + ". time"});
  }
  return leave_groups(arguments_.directory,
                      {left_.keeper + 1, left_.run, left_.attempt, left_.groups, left_.local});
}

void JobKeeper::tell_groups(LeftGroups groups) const {
  if (!arguments_.comes_back()) return;
  groups.keeper = left_.keeper + 1;
  const Status left = leave_groups(arguments_.directory, groups);
  if (!left.ok()) std::fprintf(stderr, "%s\n", left.message().c_str());
}

// Processes that serve this run go on; those of another are of no use.
Status JobKeeper::start_cluster(const keeper::Begin& attempt, const std::string& state) {
  serving_->run = attempt.run.empty() ? drawn_once() : attempt.run;
  if (attempt.run.empty()) forget_reach(arguments_.directory);
  const auto changed =
      [this, run = serving_->run, number = attempt.attempt,
       local = keeper_->state().serving()->local](const std::vector<LeftGroup>& groups) {
        tell_groups({0, run, number, groups, local});
      };
  HostsClusterOptions options;
  OVERLORD_TRY(options.here,
               start_role_cluster(arguments_, job_->spec.name, serving_->job.get(), changed));
  options.tell = [this](const std::string& host, const protocol::Control& control) {
    return carrier_->send_control(host, control);
  };
  options.attempt = attempt.attempt;
  options.state = state;
  options.post = [this](runtime::Task task) { endpoint_->post(std::move(task)); };
  serving_->cluster = std::make_unique<HostsCluster>(std::move(options));
  std::vector<LeftGroup> groups = std::exchange(left_.groups, {});
  if (serving_->run == left_.run && attempt.attempt == left_.attempt) {
    return serving_->cluster->here().adopt(groups);
  }
  end_groups({0, {}, 0, std::move(groups), {}});
  return {};
}

// What lives goes on in its generation.
protocol::Roster JobKeeper::roster_of_living(const protocol::Roster& roster) const {
  protocol::Roster out = roster;
  for (const runtime::GroupPlacement& living : serving_->cluster->placed()) {
    for (protocol::ProcessRoles& process : out.processes) {
      if (process.name == living.name) keeper::adopt(roster.processes, living.generation, &process);
    }
  }
  return out;
}

void JobKeeper::add_folded(keeper::Begun* begun) const {
  begun->term = serving_->planner->term();
  const std::shared_ptr<const planner::JournalFold>& folded = serving_->planner->folded();
  if (!folded) return;
  for (const protocol::TreeRecord& record : folded->trees()) {
    planner::PlannerJob job;
    job.spec = job_->spec;
    job.mesh = job_->mesh;
    job.delivery = job_->delivery;
    planner::TreeChanged change = planner::tree_of(job, record);
    if (change.again) change.restart = planner::position_before(*folded, change.first_step);
    begun->trees.push_back(placed_tree(change));
  }
  begun->retired = folded->retired();
}

// Without one that the config names it dies with the directory, at the end of the job.
std::string JobKeeper::journal_folder() const {
  const std::string name = std::filesystem::path(arguments_.directory).filename().string();
  if (!file_.journal_path.empty()) return journal_folder_of(file_.journal_path, job_->config, name);
  if (!arguments_.comes_back()) return {};
  return journal_folder_of(arguments_.directory + "/journal", job_->config, name);
}

}  // namespace overlord::node
