#include "overlord/node/status/stuck_loaders.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace overlord::node {
namespace {

// Grows whenever a piece of work is done.
uint64_t progress_of(const loader::LoaderCounts<Plain>& counts) {
  return counts.rows_posted + counts.documents + counts.read_bytes + counts.blocks_read +
         counts.decode_out_bytes + counts.tokenise_in_bytes + counts.tokenise_out_bytes +
         counts.media_out_bytes + counts.sent_bytes;
}

// One that only says that it lives uses less than this part of a core; one that wants to work gets
// more on the busiest machine.
constexpr int64_t kIdlePart = 50;

constexpr int64_t kSecondNs = 1'000'000'000;

// Nothing where it has ended.
int64_t cpu_ns_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');  // a name may have spaces
  if (name_end == std::string::npos) return 0;
  std::istringstream words(line.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) words >> skipped;
  int64_t user = 0, system = 0;
  words >> user >> system;
  return (user + system) * (kSecondNs / sysconf(_SC_CLK_TCK));
}

}  // namespace

int64_t cpu_ns_with_children() {
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  int64_t sum = own.tv_sec * kSecondNs + own.tv_nsec;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::ifstream children(task.path() / "children");
    for (std::string child; children >> child;) sum += cpu_ns_of(child);
  }
  return sum;
}

uint64_t StuckLoaders::longest_ms(const EngineStatus& status, int64_t cpu_ns, int64_t now_ns) {
  const bool busy = std::abs(cpu_ns - cpu_ns_) > (now_ns - looked_ns_) / kIdlePart;
  cpu_ns_ = cpu_ns;
  looked_ns_ = now_ns;
  int64_t longest_ns = 0;
  for (const LoaderStatus& loader : status.loaders) {
    Place& place = places_[{loader.source, loader.slot}];
    const uint64_t progress = progress_of(loader.counts);
    if (busy || loader.standby || loader.counts.blocks_in_work == 0 || progress != place.progress) {
      place = {progress, now_ns};
    }
    longest_ns = std::max(longest_ns, now_ns - place.since_ns);
  }
  return static_cast<uint64_t>(longest_ns) / 1'000'000;
}

}  // namespace overlord::node
