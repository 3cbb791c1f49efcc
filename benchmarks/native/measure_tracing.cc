#include "measure_tracing.h"

#include <algorithm>
#include <ctime>
#include <string>

#include "overlord/runtime/steady_clock.h"
#include "overlord/runtime/trace.h"

namespace overlord::bench {
namespace {

constexpr uint32_t kWarmEvents = 1 << 17;  // more than a book keeps

int64_t cpu_ns() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void note_some(uint32_t events) {
  for (uint32_t i = 0; i < events; ++i) {
    const int64_t begin_ns = runtime::steady_now_ns();
    if (!runtime::tracing()) return;
    runtime::TraceBook::of_process().note("assemble", "group " + std::to_string(i % 1024), begin_ns,
                                          runtime::steady_now_ns(), i);
  }
}

}  // namespace

double measure_tracing(uint32_t events) {
  runtime::TraceBook::of_process().start();
  note_some(kWarmEvents);
  const int64_t begin_ns = cpu_ns();
  note_some(events);
  const int64_t took_ns = cpu_ns() - begin_ns;
  runtime::TraceBook::of_process().stop();
  return static_cast<double>(took_ns) / std::max(1u, events);
}

}  // namespace overlord::bench
