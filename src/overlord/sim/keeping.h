// Keeping: a keeper in the simulated world. It places and supervises groups through a simulated
// cluster, hears and tells in the order of its links and late, and dies at any message: what is on
// its way to it is lost, what it has said is lost or late. The next one knows nothing, and
// everybody who lives calls it. Test only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "overlord/roles/keeper/role.h"
#include "overlord/sim/process_life.h"
#include "overlord/sim/simulated_groups.h"
#include "overlord/sim/world.h"

namespace overlord::sim {

struct KeeperStorm {
  uint64_t kills = 0;         // of the keeper over the run
  uint64_t rarity = 6;        // one message in so many kills it, before or after it is heard
  int64_t down_ns = 400'000;  // typical time until the next one starts
  // Its host dies with it, or is cut off: the planner is lost as well, and all loaders, for hosts
  // that have joined end theirs. The next keeper is on another host and finds the rest.
  bool host_dies = false;
  uint64_t hosts = 0;        // that join or leave over the run
  uint64_t host_rarity = 8;  // one message in so many makes one come or go
  uint64_t pressed = 0;      // words of hosts about their memory
  int64_t watch_ns = 0;      // looks for those that say nothing so often; 0: never
  // What no keeper hears, as if its code had been forgotten; unset: it hears all.
  std::function<bool(const keeper::Input&)> deaf;
};

// Those that a keeper serves and keeps.
class Kept {
 public:
  virtual ~Kept() = default;
  // "planner", a trainer or a group is told something.
  virtual void hear(const std::string& peer, const protocol::Control& control) = 0;
  virtual void place(const std::string& group, uint32_t generation) = 0;
  virtual void over(const std::string& group) = 0;
  // A keeper has started: everybody who lives calls it.
  virtual void call_again() = 0;
  virtual keeper::Begun begun() const = 0;
  virtual void tree_ready(uint32_t version) = 0;
  // As `PlannerStorm` has it, if there is one.
  virtual void planner_lost() = 0;
};

class Keeping final : public keeper::KeeperWorld {
 public:
  Keeping(World& world, keeper::KeeperJob job, KeeperStorm storm, Kept& kept);

  void start();
  // A peer says something to the keeper, or its link comes or goes.
  void say(const std::string& peer, keeper::Input input);
  void kill_group(const std::string& name) { groups_.kill(name); }
  uint64_t kills() const { return kills_; }
  uint64_t placed_elsewhere() const { return groups_.placed_elsewhere; }
  JumpingClock& clock() { return clock_; }

  int64_t now_ns() override { return clock_.now_ns(); }
  void on_loop(runtime::Task task) override;
  void after(int64_t delay_ns, runtime::Task task) override;
  keeper::Begun begin(const keeper::Begin&) override;
  runtime::Cluster& cluster() override { return groups_; }
  void carry_out(const keeper::Tell& tell) override { this->tell(tell.peer, tell.control); }
  void carry_out(const keeper::SetRoster& set) override { tell("planner", set.roster); }
  // Behind the rosters it was told of before.
  void carry_out(const keeper::TreeReady& ready) override {
    reach("planner", [this, version = ready.version] { kept_.tree_ready(version); });
  }
  void carry_out(const keeper::Drop&) override {}
  void carry_out(const keeper::CallLead&) override {}
  void carry_out(const keeper::StopServing&) override {}
  void carry_out(const keeper::Say&) override {}
  void carry_out(const keeper::RebuildTree&) override {}
  void carry_out(const keeper::TellStatus&) override {}
  void carry_out(const keeper::NoteStatus&) override {}
  void carry_out(const keeper::ForgetStatus&) override {}
  void carry_out(const keeper::TellUnpacking&) override {}
  void carry_out(const keeper::End&) override {}

 private:
  class Groups final : public SimulatedGroups {
   public:
    Groups(World& world, Life life, const Keeping& keeping)
        : SimulatedGroups(world, std::move(life)), keeping_(keeping) {}
    void watch(Ended ended) override;
    Status place(const runtime::GroupPlacement& group) override;

    uint64_t placed_elsewhere = 0;

   private:
    const Keeping& keeping_;
  };

  void tell(const std::string& peer, protocol::Control control);
  void reach(const std::string& peer, runtime::Task arrived);  // one after another
  void arrive(const runtime::Task& task);
  bool dies();
  void lose_host();
  void host_comes_or_goes();
  void host_speaks_of_memory();
  void watch(uint32_t generation);

  World& world_;
  JumpingClock clock_;
  keeper::KeeperJob job_;
  const KeeperStorm storm_;
  Kept& kept_;
  Groups groups_;
  std::unique_ptr<keeper::Keeper> keeper_;  // null: dead
  uint64_t kills_ = 0, comings_ = 0, words_ = 0;
  std::set<std::string> hosts_;                       // that have joined
  std::map<std::string, int64_t> said_ns_, told_ns_;  // by peer: when the last thing arrives
  std::map<std::string, uint32_t> heard_;             // by peer: the newest keeper it knows
};

}  // namespace overlord::sim
