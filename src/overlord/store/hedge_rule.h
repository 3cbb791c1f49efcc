// HedgeRule: when an answer is so late that a second request is worth its cost, and how many such
// requests there may be: one for twenty, so that a store that is slow as a whole is not asked for
// twice as much. Used by one thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace overlord::store {

class HedgeRule {
 public:
  HedgeRule(int64_t first_ns, int64_t least_ns) : first_ns_(first_ns), least_ns_(least_ns) {}

  // How long a good answer took.
  void note(int64_t duration_ns) {
    durations_[noted_++ % durations_.size()] = duration_ns;
    allowance_ = std::min(allowance_ + kPerRequest, kMostAllowance);
  }

  // Three times what nine of ten of the last answers took.
  int64_t after_ns() const {
    const size_t count = std::min(noted_, durations_.size());
    if (count < kEnough) return first_ns_;
    std::array<int64_t, kKept> sorted = durations_;
    const auto tenth = sorted.begin() + static_cast<ptrdiff_t>(count * 9 / 10);
    std::nth_element(sorted.begin(), tenth, sorted.begin() + static_cast<ptrdiff_t>(count));
    return std::max(3 * *tenth, least_ns_);
  }

  bool take() {
    if (allowance_ < kWhole) return false;
    allowance_ -= kWhole;
    return true;
  }

 private:
  static constexpr size_t kKept = 64;
  static constexpr size_t kEnough = 16;
  static constexpr uint32_t kWhole = 20, kPerRequest = 1, kMostAllowance = 200;

  const int64_t first_ns_;
  const int64_t least_ns_;
  std::array<int64_t, kKept> durations_{};
  size_t noted_ = 0;
  uint32_t allowance_ = 2 * kWhole;  // of one request, in twentieths
};

}  // namespace overlord::store
