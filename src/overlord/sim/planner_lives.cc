// Processes: the lives of its planners, one term after the other.
#include <algorithm>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/sim/processes.h"

namespace overlord::sim {

// The next term: what the journal tells, and in which generations the others are as far as a keeper
// has told.
void Processes::begin_planner(const host::HostedRoles& roles) {
  Process& process = processes_[0];
  asleep_ = nullptr;
  JournalFaults faults;
  faults.around_sync = [this, term = disk_.term() + 1] {
    if (term == disk_.term()) maybe_lose_planner();
  };
  faults.failing_sync = journals_.empty() ? planner_storm_.failing_sync : 0;
  faults.full = &weather_.disk;
  faults.mutant = weather_.mutant;
  journals_.push_back(std::make_unique<SlowJournal>(world_, disk_, std::move(faults)));
  process.generation = journals_.back()->term();
  process.dead = false;
  auto folded = std::make_shared<planner::JournalFold>();
  for (const protocol::JournalRecord& record : disk_.read()) {
    OVERLORD_CHECK(folded->apply(record).ok(), "a journal that was written here");
  }
  start_.folded = folded->started() ? folded : nullptr;
  // Where nothing is taken over nobody is told; their links to the node are new all the same.
  for (size_t i = 1; i < processes_.size() && !start_.folded; ++i) {
    if (processes_[i].host) reach(i, 0, process.generation);
  }
  begin(0, roles, process.roster);
  // Ranks are in no roster. They have come to the new node before it serves them.
  for (size_t i = 1; i < processes_.size(); ++i) {
    if (processes_[i].host && !processes_[i].keeps) reach(0, i, processes_[i].generation);
  }
  start_.folded = nullptr;
  for (const auto& wish : wishes_) wish(*process.host);
}

void Processes::with_planner(std::function<void(host::RoleHost&)> wish) {
  if (processes_[0].host) wish(*processes_[0].host);
  wishes_.push_back(std::move(wish));
}

// Dead for good, or stopped: then it wakes while another does its work, and goes on with what it
// was at.
void Processes::lose_planner() {
  Process& process = processes_[0];
  const bool stops = planner_storm_.sleep_plans > 0 || world_.dice().below(3) == 0;
  if (stops) {
    process.life->executor.stop();
    asleep_ = process.host.get();
    wake_planner_later(process.life);
    world_.landed(Fault::kFreezes);
  } else {
    process.host->stop();
    journals_.back()->die();
    world_.landed(Fault::kPlannerDies);
  }
  bury(0);
  ++seen_.planner_kills;
  world_.post_after(world_.dice().delay_ns(planner_storm_.down_ns),
                    [this] { begin_planner(processes_[0].roles); });
}

void Processes::wake_planner_later(ProcessLife* life) {
  world_.post_after(world_.dice().delay_ns(planner_storm_.sleep_ns), [this, life] {
    const bool early = disk_.plans_of_term() < planner_storm_.sleep_plans;
    if (early) return wake_planner_later(life);
    ++seen_.planner_wakes;
    life->executor.go_on();
  });
}

void Processes::maybe_lose_planner() {
  if (seen_.planner_kills >= planner_storm_.kills || !processes_[0].host) return;
  if (world_.dice().below(planner_storm_.rarity) == 0) lose_planner();
}

}  // namespace overlord::sim
