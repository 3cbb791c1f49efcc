#include "overlord/node/recovery/node_starter.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "overlord/node/recovery/node_restart.h"

namespace overlord::node {
namespace {

using std::chrono::milliseconds;

// From try to try: a node that dies at once is not started hundreds of times.
constexpr milliseconds kFirstPause{20}, kLongestPause{2000};

}  // namespace

void NodeStarter::begin() {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  wanted_ = true;
  changed_.notify_all();
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    failed_ = Status(Code::kResource, std::string("no thread to start a node: ") + error.what());
  }
}

void NodeStarter::rest() {
  const std::lock_guard lock(mutex_);
  wanted_ = false;
  failed_ = Status();
}

Status NodeStarter::last_failure() {
  const std::lock_guard lock(mutex_);
  return failed_;
}

void NodeStarter::run() {
  milliseconds pause = kFirstPause;
  std::unique_lock lock(mutex_);
  is_held(mutex_);
  while (!stopped_) {
    if (!wanted_) {
      pause = kFirstPause;
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    try_once();
    lock.lock();
    changed_.wait_for(lock, pause,
                      [this]() OVERLORD_REQUIRES(mutex_) { return stopped_ || !wanted_; });
    pause = std::min(2 * pause, kLongestPause);
  }
}

void NodeStarter::try_once() {
  const Result<bool> started = start_node_again(directory_);
  const std::lock_guard lock(mutex_);
  // Where another process has the lock, what was wrong before is still what is known.
  if (!started.ok()) failed_ = started.status();
}

void NodeStarter::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace overlord::node
