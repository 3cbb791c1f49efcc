// What holds for every worker process, whatever it computes: how many there may be, how often a
// call is tried, how long one may take to leave, and which failures are the process's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/status.h"

namespace overlord::workers {

inline constexpr size_t kMostWorkers = 256;
inline constexpr int kTries = 2;
inline constexpr int64_t kMillisecond = 1'000'000;
inline constexpr int64_t kLeaveGraceNs = 20 * kMillisecond;  // to leave when the pool ends
inline constexpr int64_t kDeathGraceNs =
    5000 * kMillisecond;  // what hung up dies soon, if not at once

// Where an array begins in what is shared with a worker.
inline constexpr uint64_t kArrayAlignment = 64;
inline uint64_t aligned(uint64_t at) { return (at + kArrayAlignment - 1) & ~(kArrayAlignment - 1); }

inline Status check_workers(const std::string& who, size_t workers) {
  if (workers >= 1 && workers <= kMostWorkers) return {};
  return invalid_argument(who + " has 1 to " + std::to_string(kMostWorkers) + " workers, not " +
                          std::to_string(workers));
}

// What may go better with another process. Everything else is an answer; a stop is not.
inline bool may_go_better(Code code) {
  return code == Code::kUnavailable || code == Code::kDeadline || code == Code::kResource;
}

// Bytes that break the protocol are a broken process, not bad data of the caller.
inline Status as_garbage(const Status& status) {
  if (status.ok()) return status;
  return {Code::kUnavailable, "sent garbage: " + status.message()};
}

// Frames are sent as they lie in memory.
template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace overlord::workers
