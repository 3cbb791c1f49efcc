// Test support of this room: what the callbacks of a link were told, and how to wait for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "overlord/transport/unix_link.h"

namespace overlord::transport {

class LinkInbox {
 public:
  LinkCallbacks callbacks() {
    return {[this](UnixLink&, ReceivedFrame frame) {
              std::lock_guard lock(mutex_);
              frames.push_back(std::move(frame));
              changed_.notify_all();
            },
            [this](UnixLink&, const Status& why) {
              std::lock_guard lock(mutex_);
              ends.push_back(why);
              changed_.notify_all();
            }};
  }

  // Waits until `done` holds, which may look at the members; false after a minute.
  bool wait(const std::function<bool()>& done) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), done);
  }
  bool wait_frames(size_t count) {
    return wait([&] { return frames.size() >= count; });
  }
  bool wait_end() {
    return wait([&] { return !ends.empty(); });
  }
  std::string text(size_t index) {
    std::lock_guard lock(mutex_);
    return {frames.at(index).payload.data, frames.at(index).payload.size};
  }

  std::vector<ReceivedFrame> frames;
  std::vector<Status> ends;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace overlord::transport
