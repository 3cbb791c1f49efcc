// Processes: the roles of one job spread over simulated processes, each a RoleHost of its own, that
// die at any message and are placed again by a keeper (sim/keeping.h), which may die as well. Does
// the worst that carriers may do around a death: what the dead said and what is said to them is
// lost or late, and whatever arrives from a generation that the receiver knows to be dead is a lie.
// Processes also freeze and starve, their links are cut and their clocks jump. Test only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "overlord/host/role_host.h"
#include "overlord/roles/keeper/rosters.h"
#include "overlord/sim/keeping.h"
#include "overlord/sim/links.h"
#include "overlord/sim/mutants.h"
#include "overlord/sim/process_life.h"
#include "overlord/sim/slow_journal.h"
#include "overlord/sim/slow_storage.h"
#include "overlord/sim/world.h"

namespace overlord::sim {

struct Storm {
  uint64_t kills = 0;         // processes that die over the run; planner and clients apart
  uint64_t rarity = 25;       // one arrival in so many kills whoever sent it or gets it
  int64_t down_ns = 400'000;  // typical time until the next generation starts
};

// The planner dies, at any message or sync; or it stops, and wakes when another has taken over.
struct PlannerStorm {
  uint64_t kills = 0;
  uint64_t rarity = 12;
  int64_t down_ns = 400'000;
  int64_t sleep_ns = 3'000'000;  // typical, of one that is only stopped
  uint64_t sleep_plans = 0;      // all stop, and wake behind so many plans of a successor; 0: none
  uint64_t failing_sync = 0;     // of the first planner's journal; 0: none
};

struct Layout {
  bool split = false;    // else one process of all roles
  uint32_t attempt = 1;  // of the trainers
  Mutant mutant = Mutant::kNone;
  uint32_t loaders_together = 1;  // slots in one process
  Storm storm;
  KeeperStorm keeper;
  PlannerStorm planner;
  StorageStorm storage;
  // At arrivals of messages; `disk` at syncs.
  Spells freezes;      // of a process; the keeper must watch for it to notice
  Spells slow;         // the same, with little of its CPU
  Spells cuts;         // of the link that something arrives on
  Spells rank_deaths;  // one at a time; it comes back where it was
  Spells jumps;        // of the clock of one process or the keeper, up to a day
  Spells memory;       // the process that holds most is killed
  Spells disk;         // is full
};

struct Sightings {  // over the whole run
  uint64_t kills = 0;
  uint64_t lost = 0;  // envelopes
  uint64_t late = 0;
  uint64_t lies = 0;
  uint64_t reposts = 0;  // windows posted again by a later generation
  uint64_t unequal_reposts = 0;
  uint64_t most_plans_kept = 0;  // by the planner
  uint64_t most_steps_held = 0;  // by one constructor
  uint64_t most_payload_bytes = 0;
  uint64_t retired = 0;  // constructors of earlier trees
  uint64_t keeper_kills = 0;
  uint64_t placed_elsewhere = 0;  // groups on hosts that had joined
  uint64_t planner_kills = 0;
  uint64_t planner_wakes = 0;         // beside a successor
  uint64_t stepped_down = 0;          // planners that found a successor's term
  uint64_t promotions = 0;            // of shadows
  uint64_t repeated_generations = 0;  // of a group: placed again in one that was there before
  uint64_t published = 0;             // plans, to whomever
  uint64_t published_early = 0;       // before the journal has them
  uint64_t most_plans_ahead = 0;      // of the slowest rank
};

// What the dead are made to say: it ends the stream of whoever heeds them.
inline constexpr const char* kFromTheDead = "from the dead";

host::HostedRoles nothing();

class Processes final : private Kept {
 public:
  Processes(World& world, SlowTransport& transport, JournalDisk& disk, host::HostStart start,
            host::HostSeams seams, const Layout& layout);
  ~Processes() override;

  host::RoleHost& host_of(const protocol::Address& role);
  Sightings sightings() const;
  // False: its rank's process is dead, or not welcomed again yet.
  bool lives(Rank rank) const;
  // The first step that some rank has not consumed.
  std::function<StepIndex()> slowest;
  // Called when a rank dies: gives the state that it comes back with.
  std::function<protocol::ResumeState(Rank)> rank_died;
  // Does it with the planner that there is, and again with every one that comes.
  void with_planner(std::function<void(host::RoleHost&)> wish);

 private:
  // Whom of another process's generations a carrier reaches from here, and since when: it was told,
  // or has heard from it.
  struct Reach {
    uint32_t generation = 1;
    int64_t since_ns = 0;
  };
  struct Process {
    std::string name;
    protocol::ProcessRoles group;  // as it is kept at first
    host::HostedRoles roles;       // of planner and clients; a group is told its own
    bool keeps = false;            // a group that the keeper keeps
    uint32_t generation = 1;
    bool dead = false;    // and not placed again yet
    bool opened = false;  // a group that calls the keeper, and waits for its roles or has them
    std::unique_ptr<host::RoleHost> host;         // null: it has no roles yet, or no more
    protocol::Roster roster;                      // the newest it was told
    std::vector<uint32_t> trees;                  // that it was told of
    std::vector<Reach> reach;                     // by process
    std::map<protocol::Address, uint32_t> told;   // the generations that all roles here know of
    std::map<protocol::Address, uint32_t> terms;  // the newest that a role here has heard
    keeper::RestartBook restarts;
    std::deque<protocol::Envelope> early;  // for its roles, which are not there yet
    std::deque<std::pair<protocol::Envelope, size_t>> said;  // to which process; newest last
    ProcessLife* life = nullptr;
    bool frozen = false;
    std::vector<runtime::Task> held;             // what has arrived meanwhile
    std::string run;                             // of a trainer that was welcomed
    std::optional<protocol::ResumeState> state;  // of a rank that has died
  };
  struct Sender {
    size_t process = 0;
    uint32_t generation = 1;  // of the process
  };

  size_t home(const protocol::Address& role) const;
  size_t named(const std::string& name) const { return by_name_.at(name); }
  Process& settle(protocol::ProcessRoles group);
  Sender sender_of(const protocol::Envelope& envelope) const;
  std::vector<size_t> homes_of(const protocol::Envelope& envelope) const;
  const protocol::ProcessRoles& own(const Process& process) const;
  std::vector<protocol::RoleGeneration> own_loaders(size_t index);
  void begin_group(size_t index);
  void keep(const Layout& layout);
  // Of the kept, as a process, a trainer and the planner behave in a node.
  void hear(const std::string& peer, const protocol::Control& control) override;
  void on_roster(size_t index, const protocol::Roster& roster);
  void on_welcome(size_t index, const protocol::Welcome& welcome);
  void take_trees(size_t index);
  void place(const std::string& group, uint32_t generation) override;
  void over(const std::string& group) override;
  void call(size_t index);
  void call_again() override;
  keeper::Begun begun() const override;
  void tree_ready(uint32_t version) override;
  void planner_lost() override {
    if (processes_[0].host) lose_planner();
  }
  void change_tree(const planner::TreeChanged& change, std::function<void()> ready);
  void retire(const protocol::Address& constructor);
  void begin(size_t index, const host::HostedRoles& roles, const protocol::Roster& known);
  void kill(size_t index);
  void bury(size_t index);
  void beat();
  // Faults that are not deaths of roles: process_faults.cc.
  void strike(const protocol::Envelope& envelope, size_t to);
  void freeze(size_t index);
  void thaw(size_t index);
  void slow_down(size_t index);
  void cut_link(size_t a, size_t b);
  void link_closed(size_t a, size_t b);
  void link_healed(size_t a, size_t b);
  void tell_of_new_link(size_t index, size_t other);
  void kill_rank(size_t index);
  void kill_largest();
  void jump_clock(size_t index);
  void begin_planner(const host::HostedRoles& roles);
  void lose_planner();
  void wake_planner_later(ProcessLife* life);
  void maybe_lose_planner();
  void reach(size_t index, size_t other, uint32_t generation);
  void tell(size_t index, const protocol::RoleGeneration& restarted);
  void haunt(size_t index, const protocol::Address& role);
  void arrive(protocol::Envelope envelope, int64_t sent_ns, size_t home, bool delayed);
  bool lost_with_the_dead(const protocol::Envelope& envelope, int64_t sent_ns, size_t to,
                          bool delayed);
  bool certain(const protocol::Envelope& envelope, int64_t sent_ns, size_t to) const;
  void maybe_kill(const protocol::Envelope& envelope, size_t to);
  void observe(const protocol::Envelope& envelope, size_t to);
  void observe_sent(const protocol::Envelope& envelope);
  void observe_plan(StepIndex step, const Digest& plan_hash);
  bool of_the_dead(const protocol::Envelope& envelope, Process* to) const;
  bool mutate(protocol::Envelope* envelope);
  void hand_over(protocol::Envelope envelope, size_t home);
  void carry(protocol::Envelope* envelope);

  World& world_;
  JournalDisk& disk_;
  host::HostStart start_;
  host::HostSeams seams_;
  Layout weather_;  // what is left of it
  Storm& storm_ = weather_.storm;
  PlannerStorm& planner_storm_ = weather_.planner;
  Links links_;
  std::deque<ProcessLife> lives_;                       // of all processes that there were
  std::vector<std::unique_ptr<SlowJournal>> journals_;  // by term, of planners
  host::RoleHost* asleep_ = nullptr;  // a planner that is stopped and has no successor yet
  std::vector<std::function<void(host::RoleHost&)>> wishes_;
  Sightings seen_;
  std::map<protocol::Address, std::vector<model::MicrobatchPtr>> last_steps_;  // for a mutant
  std::map<std::pair<StepIndex, uint32_t>, model::PlanPtr> told_plans_;        // by step and tree
  std::vector<Process> processes_;
  std::map<protocol::Address, size_t> where_;  // at first; constructors for good
  std::map<std::pair<protocol::Address, uint32_t>, Sender> senders_;  // loaders by generation
  std::map<std::string, size_t> by_name_;
  std::vector<planner::TreeChanged> trees_;
  std::vector<keeper::TreePlaced> placed_trees_;  // parallel to trees_
  std::vector<protocol::Address> retired_;
  std::function<void()> tree_ready_;  // of the tree that is being told
  std::unique_ptr<Keeping> keeping_;  // null: one process of all roles needs none
  // Stopped, and kept because tasks in the world still point at their loops.
  std::vector<std::unique_ptr<host::RoleHost>> dead_;
  std::map<std::pair<SourceIndex, uint64_t>, std::shared_ptr<const model::MetaWindow>> posted_;
};

}  // namespace overlord::sim
