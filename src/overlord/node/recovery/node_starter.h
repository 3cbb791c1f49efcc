// NodeStarter: starts the node of this host again when it has died. All its ranks try; who gets the
// lock of the directory does it. A thread of its own, from the first death on: starting a process
// waits, and nothing else of a rank may.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "overlord/base/guarded_by.h"
#include "overlord/base/status.h"

namespace overlord::node {

class NodeStarter {
 public:
  explicit NodeStarter(std::string directory) : directory_(std::move(directory)) {}
  ~NodeStarter() { stop(); }

  // There is no node: tries again and again, until there is one.
  void begin();
  // There is one.
  void rest();
  // Why the last try failed; ok: it did not, or another process tries.
  Status last_failure();
  void stop();  // ends its thread

 private:
  void run();
  void try_once();

  const std::string directory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ OVERLORD_GUARDED_BY(mutex_) = false;
  bool stopped_ OVERLORD_GUARDED_BY(mutex_) = false;
  Status failed_ OVERLORD_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace overlord::node
