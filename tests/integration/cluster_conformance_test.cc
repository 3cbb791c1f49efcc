// The contract of runtime/cluster.h, held by child processes, on this host and on one that has
// joined, here and over the wire, and by threads.
#include "integration/cluster_conformance.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <condition_variable>
#include <future>

#include "integration/joined_host.h"
#include "integration/thread_cluster.h"
#include "overlord/node/hosts/hosts_cluster.h"
#include "overlord/node/hosts/lent_groups.h"
#include "overlord/node/process_cluster.h"
#include "overlord/transport/event_loop.h"

namespace overlord::runtime {
namespace {

constexpr const char* kScript =
    "case $0 in stays*) exec sleep 3600;; ends*) exit 0;; "
    "*) echo cannot open a.parquet; exit 3;; esac";

std::unique_ptr<node::ProcessCluster> scripted() {
  node::ProcessClusterOptions options;
  options.executable = "/bin/sh";
  options.arguments = {"/bin/sh", "-c", kScript, "{name}", "of a cluster under test"};
  auto made = node::ProcessCluster::start(std::move(options));
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

class ProcessesUnderTest final : public ClusterUnderTest {
 public:
  ProcessesUnderTest() : cluster_(scripted()) {}
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
  std::unique_ptr<node::ProcessCluster> cluster_;
};

// All groups live on a joined host, which is a loop of its own in this process.
class HostsUnderTest final : public ClusterUnderTest, private Cluster {
 public:
  HostsUnderTest() {
    node::LentGroupsOptions lent;
    lent.start = [](int) -> Result<std::unique_ptr<node::ProcessCluster>> { return scripted(); };
    lent.tell = [this](const protocol::Control& control) {
      lead_->loop()->post([this, gone = std::get<protocol::GroupGone>(control)] {
        if (hosts_) hosts_->hear(kHost, gone);
      });
    };
    lent.post = [this](Task task) { joined_->loop()->post(std::move(task)); };
    lent_ = std::make_unique<node::LentGroups>(std::move(lent));
    node::HostsClusterOptions options;
    options.here = scripted();
    options.tell = [this](const std::string&, const protocol::Control& control) {
      joined_->loop()->post([this, control] {
        if (const auto* asked = std::get_if<protocol::GroupAsked>(&control)) lent_->hear(*asked);
        if (const auto* no = std::get_if<protocol::GroupUnasked>(&control)) lent_->hear(*no);
      });
      return true;
    };
    options.post = [this](Task task) { lead_->loop()->post(std::move(task)); };
    hosts_ = std::make_unique<node::HostsCluster>(std::move(options));
  }
  ~HostsUnderTest() override {
    on(*joined_, [this] { lent_.reset(); });
    on(*lead_, [this] { hosts_.reset(); });
  }
  Cluster& cluster() override { return *this; }
  bool until(const std::function<bool()>& done) override { return wait_until(done); }
  void destroy() override {
    on(*lead_, [this] {
      hosts_->stop();
      hosts_.reset();
    });
    wait_until([this] { return alive() == 0; });
  }
  size_t alive() override {
    size_t living = 0;
    on(*joined_, [&] { living = lent_->living(); });
    return living;
  }

  void watch(Ended ended) override { hosts_->watch(std::move(ended)); }
  Status place(const GroupPlacement& group) override {
    GroupPlacement there = group;
    there.host = kHost;
    const Status status = hosts_->place(there);
    on(*joined_, [] {});  // or thousands are asked for before the first is there
    return status;
  }
  void kill(const std::string& name) override { hosts_->kill(name); }
  std::vector<GroupPlacement> placed() const override { return hosts_->placed(); }
  void stop() override {
    hosts_->stop();
    wait_until([this] { return alive() == 0; });  // the other host is told, not waited for
  }

 private:
  static constexpr const char* kHost = "joined-a@1";
  static void on(transport::LoopThread& thread, const Task& task) {
    std::promise<void> done;
    thread.loop()->post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }

  const std::unique_ptr<transport::LoopThread> lead_ = *transport::LoopThread::start();
  const std::unique_ptr<transport::LoopThread> joined_ = *transport::LoopThread::start();
  std::unique_ptr<node::LentGroups> lent_;
  std::unique_ptr<node::HostsCluster> hosts_;
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

TEST(JoinedHostOfTheSuite, ServesTheLeadThatItIsTold) {
  const std::string directory = said("OVERLORD_CONFORMANCE_HOST");
  if (directory.empty()) GTEST_SKIP() << "JoinedUnderTest starts it";
  const Status status = run_host(said("OVERLORD_CONFORMANCE_FOLDER") + "/group",
                                 said("OVERLORD_CONFORMANCE_LEAD"), directory);
  EXPECT_TRUE(status.ok()) << status.message();
}

INSTANTIATE_TEST_SUITE_P(Fillings, ClusterConformance,
                         testing::Values(filling<ProcessesUnderTest>("processes"),
                                         filling<HostsUnderTest>("hosts"),
                                         filling<JoinedUnderTest>("joined"),
                                         filling<ThreadsUnderTest>("embedded")),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace overlord::runtime
