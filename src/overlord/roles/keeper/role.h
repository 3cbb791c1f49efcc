// The keeper role's only door: one per job and host, single-threaded on the loop of whoever hosts
// it. It belongs to no trainer: it opens the job to the ranks of this host, begins to serve when
// all of them agree, keeps the groups of roles alive, and tells everybody where roles live.
#pragma once

#include <memory>
#include <string>

#include "overlord/protocol/control.h"
#include "overlord/roles/keeper/logic.h"
#include "overlord/roles/keeper/state.h"
#include "overlord/runtime/cluster.h"
#include "overlord/runtime/seams.h"

namespace overlord::keeper {

// What a keeper needs of the process that it lives in. All on its loop, on_loop() from anywhere.
class KeeperWorld {
 public:
  virtual ~KeeperWorld() = default;

  virtual int64_t now_ns() = 0;
  virtual void on_loop(runtime::Task task) = 0;
  virtual void after(int64_t delay_ns, runtime::Task task) = 0;
  // Makes what an attempt needs: the state of its first step, the planner where it is here, and the
  // cluster that its groups live in.
  virtual Begun begin(const Begin& attempt) = 0;
  // Between begin() and stop_serving().
  virtual runtime::Cluster& cluster() = 0;

  virtual void carry_out(const Tell&) = 0;
  virtual void carry_out(const Drop&) = 0;
  virtual void carry_out(const CallLead&) = 0;
  virtual void carry_out(const SetRoster&) = 0;
  virtual void carry_out(const StopServing&) = 0;
  virtual void carry_out(const Say&) = 0;
  virtual void carry_out(const TreeReady&) = 0;
  virtual void carry_out(const RebuildTree&) = 0;
  virtual void carry_out(const TellStatus&) = 0;
  virtual void carry_out(const NoteStatus&) = 0;
  virtual void carry_out(const ForgetStatus&) = 0;
  virtual void carry_out(const TellUnpacking&) = 0;
  virtual void carry_out(const End&) = 0;
};

class Keeper {
 public:
  Keeper(KeeperJob job, KeeperWorld& world);
  ~Keeper();

  // All on the loop.
  void receive(Input input);
  Status admit(const protocol::Hello& hello) const;
  const KeeperState& state() const;

 private:
  class Service;
  std::shared_ptr<Service> service_;
};

}  // namespace overlord::keeper
