// ThreadCluster: a Cluster whose groups are threads of this process, as where an engine is
// embedded. A thread cannot be killed from outside: a group's body is asked to stop, and returns.
// Test only.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "overlord/runtime/cluster.h"

namespace overlord::runtime {

class ThreadCluster final : public Cluster {
 public:
  struct Outcome {
    std::string how;
    std::string last_words;
  };
  // Returns when its work is over, or soon after it is asked to stop.
  using Body = std::function<Outcome(const GroupPlacement&, std::stop_token)>;

  explicit ThreadCluster(Body body) : body_(std::move(body)) {}
  ~ThreadCluster() override { stop(); }

  void watch(Ended ended) override {
    const std::lock_guard lock(mutex_);
    ended_ = std::move(ended);
  }

  Status place(const GroupPlacement& group) override {
    std::vector<std::jthread> over;  // joined when the lock is free again
    const std::lock_guard lock(mutex_);
    if (stopping_) return {Code::kCancelled, "no group is started any more"};
    if (groups_.contains(group.name)) {
      return internal_error(group.name + " is placed while it still lives");
    }
    collect(&over);
    // The thread begins at the lock, so it finds its own entry.
    groups_[group.name] = {
        group, std::jthread([this, group](const std::stop_token& stop) { run(group, stop); })};
    return {};
  }

  void kill(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(name);
    if (found != groups_.end()) found->second.thread.request_stop();
  }

  std::vector<GroupPlacement> placed() const override {
    const std::lock_guard lock(mutex_);
    std::vector<GroupPlacement> out;
    for (const auto& [name, group] : groups_) out.push_back(group.placement);
    return out;
  }

  void stop() override {
    std::vector<std::jthread> over;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      for (auto& [name, group] : groups_) group.thread.request_stop();
      for (auto& [name, group] : groups_) over.push_back(std::move(group.thread));
      groups_.clear();
      collect(&over);
    }
    over.clear();
  }

  size_t alive() const { return alive_; }

 private:
  struct Group {
    GroupPlacement placement;
    std::jthread thread;
  };

  void run(const GroupPlacement& group, const std::stop_token& stop) {
    ++alive_;
    const Outcome outcome = body_(group, stop);
    --alive_;
    Ended ended;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      const auto found = groups_.find(group.name);
      over_.push_back(std::move(found->second.thread));
      groups_.erase(found);
      ended = ended_;
    }
    if (ended) ended({group.name, group.generation, outcome.how, outcome.last_words});
  }

  // Threads that are over, but for the one that asks: it may place from inside `ended`.
  void collect(std::vector<std::jthread>* out) {
    std::vector<std::jthread> rest;
    for (std::jthread& thread : over_) {
      const bool own = thread.get_id() == std::this_thread::get_id();
      (own ? rest : *out).push_back(std::move(thread));
    }
    over_ = std::move(rest);
  }

  const Body body_;
  mutable std::mutex mutex_;
  Ended ended_;
  std::map<std::string, Group> groups_;
  std::vector<std::jthread> over_;
  std::atomic<size_t> alive_ = 0;
  bool stopping_ = false;
};

}  // namespace overlord::runtime
