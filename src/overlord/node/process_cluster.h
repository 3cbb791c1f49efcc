// ProcessCluster: groups of roles as child processes of this one. One thread spawns, watches and
// reaps them, and reads what they print. Children are spawned, never forked; they die with that
// thread, so that not even a kill -9 of this process leaves one behind.
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

#include "overlord/host/cluster.h"
#include "overlord/transport/descriptor.h"

namespace overlord::node {

struct ProcessClusterOptions {
  std::string executable;
  // What a child is called in `ps`, and what it is told; "{name}" and "{generation}" are replaced.
  std::vector<std::string> arguments;
  int job_descriptor = -1;  // the child's descriptor 3; not owned
  // Every line that a child prints, on the watching thread.
  std::function<void(const std::string& name, const std::string& line)> printed;
};

class ProcessCluster final : public host::Cluster {
 public:
  static Result<std::unique_ptr<ProcessCluster>> start(ProcessClusterOptions options);
  ~ProcessCluster() override;

  void watch(Ended ended) override;
  Status place(const protocol::ProcessRoles& group) override;
  void kill(const std::string& name) override;
  std::vector<protocol::ProcessRoles> placed() const override;
  void stop() override;

  // For status and tests; 0 when there is none.
  pid_t process_of(const std::string& name) const;

 private:
  struct Child {
    protocol::ProcessRoles group;
    pid_t pid = 0;
    transport::Descriptor handle;  // pidfd: readable once it has ended
    transport::Descriptor output;  // what it prints
    std::string line;              // the beginning of one
    std::deque<std::string> last_words;
  };
  struct Request {
    const protocol::ProcessRoles* group = nullptr;
    Status answer;
    bool done = false;
  };

  explicit ProcessCluster(ProcessClusterOptions options);
  Status prepare();
  void run();
  void serve_requests();
  Status spawn(const protocol::ProcessRoles& group);
  void look_at_children(const std::vector<::pollfd>& polled);
  void read_output(Child* child);
  void take_lines(Child* child, const char* data, size_t size);
  void reap(const std::string& name);
  void wake();

  const ProcessClusterOptions options_;
  transport::Descriptor wake_;
  Ended ended_;
  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::map<std::string, Child> children_;  // written by the watching thread, under the mutex
  std::deque<Request*> requests_;
  bool stopping_ = false;
  std::thread watcher_;
};

}  // namespace overlord::node
