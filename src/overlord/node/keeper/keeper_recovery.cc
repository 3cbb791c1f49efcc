// What outlives a node and is found by the next: role processes, and the journal.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "overlord/node/drawn_once.h"
#include "overlord/node/keeper/job_keeper.h"
#include "overlord/node/keeper/role_cluster.h"
#include "overlord/node/recovery/rank_reach.h"
#include "overlord/node/run_journal.h"
#include "overlord/roles/keeper/shadows.h"
#include "overlord/roles/planner/tree.h"

namespace overlord::node {
namespace {

constexpr int64_t kLedNs = 1'000'000'000;  // from look to look for another lead

}  // namespace

// In the directory of a node that died, and nowhere else, there are groups.
Status JobKeeper::find_left() {
  if (!arguments_.comes_back()) return {};
  Result<LeftGroups> left = find_groups(arguments_.directory);
  // A file that cannot be read names nobody whom we could adopt: those processes are refused and
  // end.
  if (left.ok()) left_ = std::move(*left);
  if (claims()) {
    carry_out(keeper::Say{"this host leads, at " + arguments_.wire.own() + ", claim " +
                          std::to_string(arguments_.claim)});
  } else if (left_.keeper > 0) {
    carry_out(keeper::Say{"the node of this host is started again, for the " +
                          std::to_string(left_.keeper) + ". time"});
  }
  // Another has led meanwhile, and what it has placed is of later generations.
  if (claims() && left_.keeper + 1 != arguments_.claim) end_groups(std::exchange(left_, {}));
  return leave_groups(arguments_.directory,
                      {generation(), left_.run, left_.attempt, left_.groups, left_.local});
}

// Before the journal is opened: its term would end that of whoever leads now.
Status JobKeeper::still_leads() const {
  if (!claims()) return {};
  OVERLORD_TRY(const storage::LeadClaim newest, arguments_.claims->newest());
  if (newest.number == arguments_.claim) return {};
  return {Code::kUnavailable, "the host at " + newest.holder + " leads, claim " +
                                  std::to_string(newest.number) + ", this was claim " +
                                  std::to_string(arguments_.claim)};
}

// Also while it plans nothing, when its journal would not tell it. The folder may be slow.
void JobKeeper::look_for_other_leads() {
  if (!claims() || superseded_) return;
  if (leading_.valid()) {
    if (leading_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    const Status leads = leading_.get();
    if (leads.code() == Code::kUnavailable) {
      superseded_ = true;
      return receive(keeper::Superseded{leads});
    }
  }
  if (clock_.now_ns() - led_ns_ < kLedNs) return;
  led_ns_ = clock_.now_ns();
  leading_ = std::async(std::launch::async, [this] { return still_leads(); });
}

// Of a host that may lead and says so: what it makes in the folder is seen here.
Status JobKeeper::see_mark(const protocol::Control& control) const {
  const auto* join = std::get_if<protocol::Join>(&control);
  if (join == nullptr || join->mark.empty()) return {};
  if (claims()) return arguments_.claims->see_mark(join->mark);
  return invalid_argument(
      "runtime.wire.planner: a host with a list of addresses stands by for a "
      "node that was started with one; start both with the same config");
}

void JobKeeper::tell_groups(LeftGroups groups) const {
  if (!arguments_.comes_back()) return;
  groups.keeper = generation();
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
  for (SourceIndex s = 0; s < serving_->decoding.size(); ++s) {
    if (serving_->decoding[s].packs) options.packs.push_back(s);
  }
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
  if (claims()) return arguments_.claims->folder();
  if (!file_.journal_path.empty()) return journal_folder_of(file_.journal_path, job_->config, name);
  if (!arguments_.comes_back()) return {};
  return journal_folder_of(arguments_.directory + "/journal", job_->config, name);
}

}  // namespace overlord::node
