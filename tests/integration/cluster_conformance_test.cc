// The contract of runtime/cluster.h, held by child processes and by threads.
#include "integration/cluster_conformance.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <condition_variable>

#include "integration/thread_cluster.h"
#include "overlord/node/process_cluster.h"

namespace overlord::runtime {
namespace {

constexpr const char* kScript =
    "case $0 in stays*) exec sleep 3600;; ends*) exit 0;; "
    "*) echo cannot open a.parquet; exit 3;; esac";

bool wait_until(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class ProcessesUnderTest final : public ClusterUnderTest {
 public:
  ProcessesUnderTest() {
    node::ProcessClusterOptions options;
    options.executable = "/bin/sh";
    options.arguments = {"/bin/sh", "-c", kScript, "{name}", mark_};
    auto made = node::ProcessCluster::start(std::move(options));
    EXPECT_TRUE(made.ok()) << made.status().message();
    cluster_ = std::move(*made);
  }
  Cluster& cluster() override { return *cluster_; }
  bool until(const std::function<bool()>& done) override { return wait_until(done); }
  void destroy() override { cluster_.reset(); }

  // Children of this process that have not been reaped; nothing else here starts any.
  size_t alive() override {
    siginfo_t info{};
    const bool some = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    return some ? 1 : 0;  // fails with ECHILD when there is none, dead or alive
  }

 private:
  const std::string mark_ = "of a cluster under test";
  std::unique_ptr<node::ProcessCluster> cluster_;
};

class ThreadsUnderTest final : public ClusterUnderTest {
 public:
  ThreadsUnderTest() {
    cluster_ = std::make_unique<ThreadCluster>(
        [this](const GroupPlacement& group, const std::stop_token& stop) {
          return live(group, stop);
        });
  }
  Cluster& cluster() override { return *cluster_; }
  bool until(const std::function<bool()>& done) override { return wait_until(done); }
  size_t alive() override { return alive_; }
  void destroy() override { cluster_.reset(); }

 private:
  ThreadCluster::Outcome live(const GroupPlacement& group, const std::stop_token& stop) {
    ++alive_;
    ThreadCluster::Outcome out{"exit status 0", {}};
    if (group.name.starts_with("stays")) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any().wait(lock, stop, [] { return false; });
      out.how = "stopped";
    } else if (group.name.starts_with("fails")) {
      out = {"exit status 3", "cannot open a.parquet"};
    }
    --alive_;
    return out;
  }

  std::atomic<size_t> alive_ = 0;
  std::unique_ptr<ThreadCluster> cluster_;
};

INSTANTIATE_TEST_SUITE_P(Fillings, ClusterConformance,
                         testing::Values(filling<ProcessesUnderTest>("processes"),
                                         filling<ThreadsUnderTest>("embedded")),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace overlord::runtime
