// What one life of a simulated process has for itself: an executor that may be stopped or starved,
// and a clock that may jump. Test only.
#pragma once

#include <cstdint>
#include <vector>

#include "overlord/runtime/seams.h"
#include "overlord/sim/world.h"

namespace overlord::sim {

// What it has to do waits while the process is stopped, and takes longer while it is starved.
class ProcessExecutor final : public runtime::Executor {
 public:
  explicit ProcessExecutor(World& world) : world_(world) {}
  void post(runtime::Task task) override { post_after(0, std::move(task)); }
  void post_after(int64_t delay_ns, runtime::Task task) override;
  void stop() { stopped_ = true; }
  void go_on();
  // Every task takes about so much longer.
  void starve(int64_t typical_ns) { starved_ns_ = typical_ns; }

 private:
  World& world_;
  bool stopped_ = false;
  int64_t starved_ns_ = 0;
  std::vector<runtime::Task> waiting_;
};

class JumpingClock final : public runtime::Clock {
 public:
  explicit JumpingClock(World& world) : world_(world) {}
  int64_t now_ns() override { return world_.now_ns() + ahead_ns_; }
  void jump(int64_t by_ns) { ahead_ns_ += by_ns; }

 private:
  World& world_;
  int64_t ahead_ns_ = 0;
};

struct ProcessLife {
  explicit ProcessLife(World& world) : executor(world), clock(world) {}
  ProcessExecutor executor;
  JumpingClock clock;
};

}  // namespace overlord::sim
