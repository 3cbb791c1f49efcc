// WorkerProcess: one child process, spoken to over its stdin and stdout (one socket pair) by one
// thread. Made with posix_spawn in a process group of its own, without any other descriptor of
// ours; its stderr is swallowed into a bounded tail for error messages. runtime::Descriptor by
// whoever starts it; the destructor kills and reaps. It never forks, never raises SIGPIPE, never
// waits without a deadline, and knows nothing of what the bytes mean.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/runtime/descriptor.h"
#include "overlord/workers/living_workers.h"

namespace overlord::workers {

struct WorkerCommand {
  std::vector<std::string> argv;         // argv[0] is looked up in PATH
  std::vector<std::string> environment;  // the whole of it, NAME=value
};

// Ours with `changes`, NAME=value, over it.
std::vector<std::string> environment_with(const std::vector<std::string>& changes);

class WorkerProcess {
 public:
  // `stop_descriptor` is not owned; once it is readable every wait ends with kCancelled. It is
  // one of the `living` until it is finished.
  static Result<std::unique_ptr<WorkerProcess>> start(const WorkerCommand& command,
                                                      int stop_descriptor, LivingWorkers& living);
  ~WorkerProcess() { finish(0); }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Both fail with kDeadline after `progress_ns` in which no byte moved, with kUnavailable when the
  // child has closed its end, with kCancelled on stop. While it writes, send() takes up to
  // kEarlyBytes that the child says too early, so that neither waits for the other for ever.
  static constexpr size_t kEarlyBytes = 128 * 1024;
  Status send(std::span<const std::string_view> pieces, int64_t progress_ns);
  Status receive(void* data, size_t size_bytes, int64_t progress_ns);
  // Until there is something to receive, or its end; kDeadline at `deadline_ns`.
  Status wait_readable(int64_t deadline_ns);

  // Closes the connection, gives the child `grace_ns` to leave by itself, kills what is left of its
  // group, reaps it. Says how it ended: "exit status 3", "signal 11", "had to be killed".
  std::string finish(int64_t grace_ns);
  // After finish(): whether somebody else had killed it.
  bool killed_by_others() const { return killed_by_others_; }

  // The last lines of its stderr, complete only after finish().
  std::string last_words() const;
  pid_t pid() const { return pid_; }

 private:
  struct Ends;

  WorkerProcess(pid_t pid, runtime::Descriptor socket, runtime::Descriptor errors,
                int stop_descriptor, LivingWorkers& living);
  static Result<Ends> make_ends();
  static Result<pid_t> spawn(const WorkerCommand& command, const Ends& ends);
  static Status above_stdio(runtime::Descriptor* descriptor);

  Result<short> wait_for(short events, int64_t deadline_ns);
  Result<size_t> take_available(char* data, size_t size_bytes);
  Status take_early();
  void swallow_errors();
  bool wait_for_exit(int64_t deadline_ns);

  pid_t pid_;
  runtime::Descriptor socket_;
  runtime::Descriptor errors_;  // read end of its stderr; closed at its end
  int stop_descriptor_;
  LivingWorkers& living_;
  std::string early_;  // said before it was asked; consumed by receive()
  std::string tail_;
  bool killed_by_others_ = false;
};

}  // namespace overlord::workers
