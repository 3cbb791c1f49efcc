// LifeLine: what a node process hears from outside its job. The process that starts it sends the
// job over standard input, or why there is none; SIGTERM asks it to end, and so does, where the
// node belongs to a process that stays (`overlord serve`), the end of that process. Where that is
// run again (an actor of Ray), the node dies with it, and the next one goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "overlord/base/status.h"
#include "overlord/runtime/descriptor.h"

namespace overlord::node {

class LifeLine {
 public:
  enum class Starter : uint8_t { kLeaves, kStays, kComesAgain };
  // Before any thread is started: they inherit that SIGTERM is not theirs.
  static Result<std::unique_ptr<LifeLine>> make();
  ~LifeLine();

  // Waits for the job file. kCancelled: SIGTERM came first.
  Result<std::string> job();
  // Tells once, on a thread of its own, that the node is to end, and why. Until unwatch(), after
  // which nothing is told any more.
  Status watch(Starter starter, std::function<void(const Status&)> ended);
  void unwatch();

 private:
  LifeLine(runtime::Descriptor signals, runtime::Descriptor wake)
      : signals_(std::move(signals)), wake_(std::move(wake)) {}
  Result<std::string> read_exactly(size_t size_bytes);

  runtime::Descriptor signals_;
  runtime::Descriptor wake_;
  std::thread watcher_;
};

}  // namespace overlord::node
