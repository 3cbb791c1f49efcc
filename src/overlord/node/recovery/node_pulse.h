// NodePulse: what a node's process says of itself in its directory, in the file `pulse`: which one
// it is, from its first moment on, and by the file's time, again and again, that it runs. So ranks
// can tell a node that is slow to open its sources from one that was stopped before it could answer
// anybody.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"
#include "overlord/node/recovery/living_process.h"

namespace overlord::node {

class NodePulse {
 public:
  // Of this process, from a thread of its own, as long as the object lives.
  static Result<std::unique_ptr<NodePulse>> begin(const std::string& directory);
  ~NodePulse();

 private:
  explicit NodePulse(std::string directory) : directory_(std::move(directory)) {}
  void run();

  const std::string directory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ OVERLORD_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

struct SeenPulse {
  LivingProcess process;
  int64_t beat = 0;  // another one with every beat; compared with no clock
};
// Of the node that is in a directory, or was.
Result<SeenPulse> see_pulse(const std::string& directory);

// Kills the node of a directory, if it is the one that says so there.
void kill_node(const std::string& directory);

}  // namespace overlord::node
