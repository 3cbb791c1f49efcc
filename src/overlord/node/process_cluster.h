// ProcessCluster: groups of roles as child processes of this one, and of one before it that has
// died. One thread spawns, watches and reaps them, and reads what they print. Children are spawned,
// never forked. Whether they outlive this process is theirs to say (role_process.h): those that do
// are adopted by the next; what they print and how they end, nobody hears then.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "overlord/base/guarded_by.h"
#include "overlord/node/recovery/left_groups.h"
#include "overlord/runtime/cluster.h"
#include "overlord/runtime/descriptor.h"

namespace overlord::node {

struct ProcessClusterOptions {
  std::string executable;
  // What a child is called in `ps`, and what it is told; "{name}" and "{generation}" are replaced.
  std::vector<std::string> arguments;
  int job_descriptor = -1;  // the child's descriptor 3; not owned
  // Every line that a child prints, on the watching thread.
  std::function<void(const std::string& name, const std::string& line)> printed;
  // All that live, whenever one has come or gone; on the watching thread.
  std::function<void(const std::vector<LeftGroup>&)> changed = {};
};

class ProcessCluster final : public runtime::Cluster {
 public:
  static Result<std::unique_ptr<ProcessCluster>> start(ProcessClusterOptions options);
  ~ProcessCluster() override;

  void watch(Ended ended) override;
  Status place(const runtime::GroupPlacement& group) override;
  // Takes over those of these that live.
  Status adopt(const std::vector<LeftGroup>& groups);
  // Whatever lives is left to whoever comes next; nothing is told any more.
  void leave();
  void kill(const std::string& name) override;
  std::vector<runtime::GroupPlacement> placed() const override;
  void stop() override;
  uint32_t process_of(const std::string& name) const override;

 private:
  struct Child {
    runtime::GroupPlacement group;
    LivingProcess process;
    bool adopted = false;        // nobody tells us how it ended
    runtime::Descriptor handle;  // pidfd: readable once it has ended
    runtime::Descriptor output;  // what it prints
    std::string line;            // the beginning of one
    std::deque<std::string> last_words;
  };
  struct Request {
    std::function<Status()> work;
    Status answer;
    bool done = false;
  };

  explicit ProcessCluster(ProcessClusterOptions options);
  Status prepare();
  void run();
  void serve_requests();
  // On the watching thread, which alone adds and removes children.
  Status on_watcher(std::function<Status()> work);
  Status spawn(const runtime::GroupPlacement& group);
  void look_at_children(const std::vector<::pollfd>& polled);
  void take_over(const LeftGroup& left);
  void tell_changed();
  void end(bool kill_all);
  void read_output(Child* child);
  void take_lines(Child* child, const char* data, size_t size);
  void reap(const std::string& name);
  void wake();

  const ProcessClusterOptions options_;
  runtime::Descriptor wake_;
  Ended ended_;
  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::map<std::string, Child> children_;  // written by the watching thread, under the mutex
  std::deque<Request*> requests_ OVERLORD_GUARDED_BY(mutex_);
  bool stopping_ OVERLORD_GUARDED_BY(mutex_) = false;
  bool leaving_ OVERLORD_GUARDED_BY(mutex_) = false;  // what lives is left
  std::thread watcher_;
};

}  // namespace overlord::node
