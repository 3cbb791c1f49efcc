// MetricsDoor: a node's figures over HTTP, for whoever collects them on this host: on a socket in
// the node's own directory, which this user alone can enter, or on a loopback port. Anything beyond
// this host is refused, as the figures have no lock; nothing is opened that was not asked for. A
// bounded number of callers, each for a bounded time; silent ones keep nobody out. A thread of its
// own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "overlord/base/status.h"
#include "overlord/runtime/descriptor.h"

namespace overlord::node {

struct MetricsOptions {
  bool socket = false;  // DIRECTORY/metrics
  std::string address;  // HOST:PORT of this host; empty: none

  bool asked_for() const { return socket || !address.empty(); }
  // A word KEY=VALUE; false for one of somebody else.
  bool take(const std::string& key, const std::string& value);
};

class MetricsDoor {
 public:
  // The figures as text; nothing when they could not be had in time. On the door's thread.
  using Figures = std::function<std::optional<std::string>()>;

  // kInvalidArgument for an address beyond this host, before anything is opened.
  static Result<std::unique_ptr<MetricsDoor>> open(const MetricsOptions& options,
                                                   const std::string& directory, Figures figures);
  ~MetricsDoor();
  uint16_t port() const { return port_; }  // 0: none

 private:
  explicit MetricsDoor(Figures figures) : figures_(std::move(figures)) {}
  Status listen_on_socket(const std::string& directory);
  Status listen_on_port(const std::string& address);
  // Who has connected; says nothing until he has asked.
  struct Caller {
    runtime::Descriptor socket;
    int64_t deadline_ns = 0;
    std::string request;
    std::string answer;
    size_t sent = 0;
  };
  void serve();
  static void let_in(int door, std::vector<Caller>* callers);
  bool go_on(Caller* caller) const;
  std::string answer_to(const std::string& request) const;

  const Figures figures_;
  std::vector<runtime::Descriptor> doors_;
  runtime::Descriptor stop_;
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace overlord::node
