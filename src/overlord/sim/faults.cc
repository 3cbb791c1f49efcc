#include "overlord/sim/faults.h"

#include <numeric>

namespace overlord::sim {

const char* name_of(Fault fault) {
  constexpr std::array<const char*, kFaults> kNames = {
      "planner dies", "keeper dies", "role dies",  "rank dies",   "process freezes", "process slow",
      "link held",    "link cut",    "disk full",  "disk loses",  "sync fails",      "memory short",
      "read late",    "read stuck",  "read fails", "clock jumps", "bad row",         "host leaves"};
  return kNames[static_cast<size_t>(fault)];
}

uint64_t Landed::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
}

Landed& Landed::operator+=(const Landed& other) {
  for (size_t i = 0; i < kFaults; ++i) counts_[i] += other.counts_[i];
  return *this;
}

std::string Landed::text() const {
  std::string out;
  for (size_t i = 0; i < kFaults; ++i) {
    if (counts_[i] == 0) continue;
    out += (out.empty() ? "" : ", ") + std::string(name_of(static_cast<Fault>(i))) + " " +
           std::to_string(counts_[i]);
  }
  return out.empty() ? "none" : out;
}

Tally& tally() {
  thread_local Tally of_thread;
  return of_thread;
}

}  // namespace overlord::sim
