// overlord-measure: what benchmarks measure in processes without a Python. It sets its memory up as
// the processes of a node do.
//
//   overlord-measure handover DIRECTORY BYTES ROUNDS       (for `overlord bench handover`)
//   overlord-measure transport send|take wire|raw ADDRESS BYTES BATCHES STREAMS SLICE
//   OPTION=VALUE...
//                                                          (for `overlord bench transport`)
//   overlord-measure tracing EVENTS                        (for `overlord bench delivery`)
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "measure_handover.h"
#include "measure_tracing.h"
#include "measure_transport.h"
#include "overlord/node/process_memory.h"
#include "overlord/node/wire_options.h"

namespace overlord::bench {
namespace {

constexpr int kBadUse = 2;

int complain(const std::string& text) {
  std::fprintf(stderr, "overlord-measure: %s\n", text.c_str());
  return kBadUse;
}

int tell_handover(const std::vector<std::string>& words) {
  if (words.size() != 3) return complain("handover DIRECTORY BYTES ROUNDS");
  const auto rounds = static_cast<uint32_t>(std::strtoul(words[2].c_str(), nullptr, 10));
  const auto found =
      measure_handover(words[0], std::strtoull(words[1].c_str(), nullptr, 10), rounds);
  if (!found.ok()) return complain(found.status().message());
  std::printf(
      "{\"p50_us\": %.2f, \"p99_us\": %.2f, \"own_p50_us\": %.2f, \"own_p99_us\": %.2f, "
      "\"queued_p99_us\": %.2f, \"round_p50_us\": %.2f, \"round_p99_us\": %.2f, "
      "\"inline_bytes\": %llu, \"frame_bytes\": %llu}\n",
      found->p50_us, found->p99_us, found->own_p50_us, found->own_p99_us, found->queued_p99_us,
      found->round_p50_us, found->round_p99_us,
      static_cast<unsigned long long>(found->inline_bytes),
      static_cast<unsigned long long>(found->frame_bytes));
  return 0;
}

// A sender says where it listens on a line of its own, and then, as a taker does, its figures.
int tell_transport(const std::vector<std::string>& words) {
  if (words.size() < 7) return complain("transport send|take wire|raw ADDRESS BYTES BATCHES ...");
  const auto number = [&](size_t i) { return std::strtoull(words[i].c_str(), nullptr, 10); };
  TransportRun run;
  run.raw = words[1] == "raw";
  run.address = words[2];
  run.batch_bytes = number(3);
  run.batches = static_cast<uint32_t>(number(4));
  run.streams = static_cast<uint32_t>(number(5));
  run.slice_bytes = number(6);
  node::WireOptions wire;
  for (size_t i = 7; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals == std::string::npos ||
        !wire.take(words[i].substr(0, equals), words[i].substr(equals + 1))) {
      return complain("unknown option " + words[i]);
    }
  }
  node::keep_large_buffers();
  Result<transport::WireSecurity> security = node::read_security(wire);
  if (!security.ok()) return complain(security.status().message());
  run.security = std::move(*security);
  const auto listening = [](const std::string& address) {
    std::printf("%s\n", address.c_str());
    std::fflush(stdout);
  };
  const Result<TransportFigures> found =
      words[0] == "send" ? send_batches(run, listening) : take_batches(run);
  if (!found.ok()) return complain(found.status().message());
  std::printf("{\"bytes\": %llu, \"wall_s\": %.6f, \"cpu_s\": %.6f}\n",
              static_cast<unsigned long long>(found->bytes), found->wall_s, found->cpu_s);
  return 0;
}

int tell_tracing(const std::vector<std::string>& words) {
  if (words.size() != 1) return complain("tracing EVENTS");
  const auto events = static_cast<uint32_t>(std::strtoul(words[0].c_str(), nullptr, 10));
  std::printf("{\"cpu_ns\": %.1f}\n", measure_tracing(events));
  return 0;
}

}  // namespace
}  // namespace overlord::bench

int main(int count, char** words) {
  const std::vector<std::string> rest(words + std::min(count, 2), words + count);
  const std::string what = count > 1 ? words[1] : "";
  umask(077);
  overlord::node::give_back_what_is_freed();
  if (what == "handover") return overlord::bench::tell_handover(rest);
  if (what == "transport") return overlord::bench::tell_transport(rest);
  if (what == "tracing") return overlord::bench::tell_tracing(rest);
  return overlord::bench::complain("handover, transport or tracing, got '" + what + "'");
}
