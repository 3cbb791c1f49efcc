// LoadMeter: how long a slot's workers were at work, added up over them, and when to tell.
#pragma once

#include <cstdint>
#include <optional>

namespace overlord::loader {

class LoadMeter {
 public:
  // From `now_ns` on so many workers are at work. What to tell, where there is news: at once what
  // the first work took, then at most five times a second.
  std::optional<uint64_t> note(uint64_t workers, int64_t now_ns) {
    busy_ns_ += static_cast<uint64_t>(now_ns - since_ns_) * workers_;
    since_ns_ = now_ns;
    workers_ = workers;
    const bool soon = told_ns_ > 0 && now_ns - told_at_ns_ < kIntervalNs;
    if (soon || busy_ns_ == told_ns_) return std::nullopt;
    told_at_ns_ = now_ns;
    told_ns_ = busy_ns_;
    return busy_ns_;
  }

 private:
  static constexpr int64_t kIntervalNs = 200'000'000;

  int64_t since_ns_ = 0, told_at_ns_ = 0;
  uint64_t workers_ = 0, busy_ns_ = 0, told_ns_ = 0;
};

}  // namespace overlord::loader
