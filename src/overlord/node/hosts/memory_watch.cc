#include "overlord/node/hosts/memory_watch.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "overlord/node/recovery/living_process.h"

namespace overlord::node {
namespace {

// Of what was given, and of what the machine has left.
constexpr uint64_t kShortPercent = 90, kRoomyPercent = 60;
constexpr uint64_t kShortLeftPercent = 5, kRoomyLeftPercent = 15;
constexpr int64_t kAskAgainNs = 5'000'000'000;  // a group has ended by then
constexpr int64_t kRoomyNs = 60'000'000'000;

bool is_short(const HostMemory& memory) {
  return (memory.given_bytes > 0 && memory.held_bytes * 100 > memory.given_bytes * kShortPercent) ||
         memory.available_bytes * 100 < memory.total_bytes * kShortLeftPercent;
}

bool is_roomy(const HostMemory& memory) {
  return (memory.given_bytes == 0 ||
          memory.held_bytes * 100 < memory.given_bytes * kRoomyPercent) &&
         memory.available_bytes * 100 >= memory.total_bytes * kRoomyLeftPercent;
}

}  // namespace

HostMemory read_host_memory(uint64_t given_bytes) {
  HostMemory out;
  out.given_bytes = given_bytes;
  out.held_bytes = held_bytes_with_children(getpid());
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (uint64_t kib = 0; file >> name >> kib;) {
    std::getline(file, unit);
    if (name == "MemTotal:") out.total_bytes = kib * 1024;
    if (name == "MemAvailable:") out.available_bytes = kib * 1024;
  }
  return out;
}

std::optional<bool> MemoryWatch::look(const HostMemory& memory, int64_t now_ns) {
  if (!is_roomy(memory)) roomy_ns_.reset();
  if (is_short(memory)) {
    if (asked_ns_ && now_ns - *asked_ns_ < kAskAgainNs) return std::nullopt;
    asked_ns_ = now_ns;
    return true;
  }
  if (!asked_ns_ || !is_roomy(memory)) return std::nullopt;
  if (!roomy_ns_) roomy_ns_ = now_ns;
  if (now_ns - *roomy_ns_ < kRoomyNs) return std::nullopt;
  roomy_ns_ = now_ns;
  return false;
}

}  // namespace overlord::node
