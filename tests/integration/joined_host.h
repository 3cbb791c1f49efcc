// A lead whose groups all live on a host that has joined over the wire, as `overlord serve --join`
// and actors of Ray do it; the groups are a script. Test only.
//
// The host is another process of this test. Where OVERLORD_CONFORMANCE_FOLDER is set somebody else
// starts it, wherever that is: the folder has the script, and OVERLORD_CONFORMANCE_LEAD says where
// the lead listens.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "integration/cluster_conformance.h"
#include "overlord/node/hosts/hosts_cluster.h"
#include "overlord/node/hosts/joined_host.h"
#include "overlord/runtime/descriptor.h"
#include "overlord/storage/temporary_directory_test.h"
#include "overlord/transport/carrier.h"
#include "overlord/transport/endpoint.h"

namespace overlord::runtime {

inline std::string said(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Lives as its name says (cluster_conformance.h): a shell that waits for what nobody writes.
inline void write_script(const std::string& path) {
  std::ofstream(path) << "#!/bin/sh\n"
                         "case $3 in stays*) read never <$0.never;; ends*) exit 0;; "
                         "*) echo cannot open a.parquet; exit 3;; esac\n";
  mkfifo((path + ".never").c_str(), 0600);
  chmod(path.c_str(), 0700);
}

// What the process of the host runs, until its standard input ends.
inline Status run_host(const std::string& script, const std::string& lead,
                       const std::string& directory) {
  OVERLORD_TRY(const std::unique_ptr<node::LifeLine> line, node::LifeLine::make());
  node::KeeperArguments arguments;
  arguments.directory = directory;
  arguments.executable = script;
  arguments.stays = true;
  arguments.wire.lead = lead;
  arguments.wire.bind = "127.0.0.1:0";
  return node::run_joined_host(arguments, {}, *line).status();
}

class JoinedUnderTest final : public ClusterUnderTest, private Cluster {
 public:
  JoinedUnderTest() : theirs_(!said("OVERLORD_CONFORMANCE_FOLDER").empty()) {
    chmod(folder_.path().c_str(), 0700);
    script_ = theirs_ ? said("OVERLORD_CONFORMANCE_FOLDER") + "/group" : folder_.path("group");
    if (!std::filesystem::exists(script_)) write_script(script_);
    transport::CarrierOptions carried;
    carried.name = "lead";
    carried.deliver = [](const protocol::Envelope&) {};
    carried.control = [this](const std::string& peer, const protocol::Control& control) {
      if (std::get_if<protocol::Join>(&control)) found(peer);
      const auto* gone = std::get_if<protocol::GroupGone>(&control);
      if (gone != nullptr) hosts_->hear(peer, *gone);
    };
    carrier_ = std::make_unique<transport::Carrier>(std::move(carried));
    transport::EndpointOptions options;
    options.directory = folder_.path();
    options.self.name = options.wire_name = "lead";
    options.admit = [](const protocol::Hello&) { return Status(); };
    options.connected = [](const protocol::Hello&) {};
    options.lost = [this](const std::string& peer) { hosts_->host_left(peer); };
    options.pool = BufferPool::make(1 << 20);
    endpoint_ = *transport::Endpoint::open(std::move(options), carrier_.get());
    node::HostsClusterOptions cluster;
    node::ProcessClusterOptions here;
    here.executable = "/bin/false";
    cluster.here = *node::ProcessCluster::start(std::move(here));
    cluster.tell = [this](const std::string& host, const protocol::Control& control) {
      return carrier_->send_control(host, control);
    };
    cluster.post = [this](Task task) { endpoint_->post(std::move(task)); };
    hosts_ = std::make_unique<node::HostsCluster>(std::move(cluster));
    const std::string port = theirs_ ? said("OVERLORD_CONFORMANCE_LEAD") : "127.0.0.1:0";
    const Result<std::string> lead = endpoint_->listen_wire(port);
    EXPECT_TRUE(lead.ok()) << lead.status().message();
    if (!theirs_) start_host(*lead);
    EXPECT_TRUE(until([this] { return host().has_value(); })) << "no host has joined";
  }
  ~JoinedUnderTest() override { destroy(); }

  Cluster& cluster() override { return *this; }
  bool until(const std::function<bool()>& done) override { return wait_until(done); }
  void destroy() override {
    if (!hosts_) return;
    hosts_->stop();
    endpoint_->close();
    hosts_.reset();
    wait_until([this] { return alive() == 0; });
    if (input_ >= 0) ::close(std::exchange(input_, -1));
    if (host_process_ > 0) waitpid(std::exchange(host_process_, -1), nullptr, 0);
  }
  // Shells of the script, whoever is their parent.
  size_t alive() override {
    size_t out = 0;
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
      const std::string path = entry.path().string() + "/cmdline";
      const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      std::string words(4096, '\0');  // a stream would throw where the process has just ended
      const ssize_t got = file.valid() ? ::read(file.get(), words.data(), words.size()) : 0;
      words.resize(std::max<ssize_t>(got, 0));
      out += words.find(script_ + '\0' + "role") != std::string::npos ? 1 : 0;
    }
    return out;
  }

  void watch(Ended ended) override { hosts_->watch(std::move(ended)); }
  Status place(const GroupPlacement& group) override {
    GroupPlacement there = group;
    there.host = *host();
    // Or thousands are asked for before the first is there.
    if (group.name.starts_with("stays-")) {
      wait_until([this] { return hosts_->placed().size() < alive() + 8; });
    }
    return hosts_->place(there);
  }
  void kill(const std::string& name) override { hosts_->kill(name); }
  std::vector<GroupPlacement> placed() const override { return hosts_->placed(); }
  void stop() override {
    hosts_->stop();
    wait_until([this] { return alive() == 0; });  // the other host is told, not waited for
  }

 private:
  void found(const std::string& peer) {
    const std::lock_guard lock(mutex_);
    host_ = peer;
  }
  std::optional<std::string> host() const {
    const std::lock_guard lock(mutex_);
    return host_;
  }
  void start_host(const std::string& lead) {
    const std::string directory = folder_.path("joined");
    mkdir(directory.c_str(), 0700);
    int ends[2] = {-1, -1};
    ASSERT_EQ(pipe(ends), 0);
    host_process_ = fork();
    if (host_process_ == 0) {
      dup2(ends[0], 0);
      ::close(ends[1]);
      setenv("OVERLORD_CONFORMANCE_HOST", directory.c_str(), 1);
      setenv("OVERLORD_CONFORMANCE_FOLDER", folder_.path().c_str(), 1);
      setenv("OVERLORD_CONFORMANCE_LEAD", lead.c_str(), 1);
      execl("/proc/self/exe", "host", "--gtest_filter=JoinedHostOfTheSuite.*", nullptr);
      _exit(1);
    }
    ::close(ends[0]);
    input_ = ends[1];
  }

  const bool theirs_;
  const storage::TemporaryDirectory folder_;
  std::string script_;
  std::unique_ptr<transport::Carrier> carrier_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::unique_ptr<node::HostsCluster> hosts_;
  mutable std::mutex mutex_;
  std::optional<std::string> host_;
  pid_t host_process_ = -1;
  int input_ = -1;
};

}  // namespace overlord::runtime
