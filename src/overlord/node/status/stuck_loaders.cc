#include "overlord/node/status/stuck_loaders.h"

#include <algorithm>
#include <cstdlib>

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

}  // namespace

uint64_t StuckLoaders::longest_ms(const EngineStatus& status, int64_t cpu_ns, int64_t now_ns) {
  const bool busy = std::abs(cpu_ns - cpu_ns_) > (now_ns - looked_ns_) / kIdlePart;
  cpu_ns_ = cpu_ns;
  looked_ns_ = now_ns;
  int64_t longest_ns = 0;
  for (const LoaderStatus& loader : status.loaders) {
    Place& place = places_[{loader.source, loader.slot}];
    const uint64_t progress = progress_of(loader.counts);
    if (busy || loader.standby || loader.blocks_in_work == 0 || progress != place.progress) {
      place = {progress, now_ns};
    }
    longest_ns = std::max(longest_ns, now_ns - place.since_ns);
  }
  return static_cast<uint64_t>(longest_ns) / 1'000'000;
}

}  // namespace overlord::node
