// SimulatedGroups: a Cluster whose groups live in the simulated world. Each takes its own time to
// die, and ends by itself when its life is over. Test only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "overlord/runtime/cluster.h"
#include "overlord/sim/world.h"

namespace overlord::sim {

struct SimulatedLife {
  std::optional<int64_t> lasts_ns;  // unset: until it is killed
  std::string how = "exit status 0";
  std::string last_words;
  std::function<void()> over = {};  // called at its end, before that is told
};

class SimulatedGroups : public runtime::Cluster {
 public:
  using Life = std::function<SimulatedLife(const runtime::GroupPlacement&)>;
  SimulatedGroups(World& world, Life life);

  void watch(Ended ended) override { ended_ = std::move(ended); }
  Status place(const runtime::GroupPlacement& group) override;
  void kill(const std::string& name) override;
  std::vector<runtime::GroupPlacement> placed() const override;
  void stop() override;

  // Those that live there end with it.
  void lose_host(const std::string& host);

  size_t alive() const { return groups_.size(); }

 private:
  struct Group {
    runtime::GroupPlacement placement;
    uint64_t number = 0;  // tells it from others of its name
    SimulatedLife life;
    bool condemned = false;
  };
  enum class How { kItself, kKilled, kHostLeft };
  void end(const std::string& name, uint64_t number, How how);

  World& world_;
  Life life_;
  Ended ended_;
  std::map<std::string, Group> groups_;
  uint64_t last_number_ = 0;
  bool stopped_ = false;
  // Events outlive the cluster in the world's queue: they look whether it is still there.
  std::shared_ptr<SimulatedGroups*> self_;
};

}  // namespace overlord::sim
