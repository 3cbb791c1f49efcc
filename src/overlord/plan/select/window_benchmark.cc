// Time of rebalancing a window of four steps, and what it gains.
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "overlord/base/rng.h"
#include "overlord/plan/select/window.h"

namespace overlord::plan {
namespace {

double unit_interval(uint64_t key, uint64_t i, uint64_t j) {
  return (static_cast<double>(random_u64(key, i, j) >> 11) + 0.5) * 0x1p-53;
}

// Costs of samples with log-normal lengths: linear in the length, and its square.
std::vector<int64_t> long_tailed(size_t count, double sigma) {
  std::vector<int64_t> costs(count);
  for (size_t i = 0; i < count; ++i) {
    const double normal = std::sqrt(-2.0 * std::log(unit_interval(1, i, 0))) *
                          std::cos(6.283185307179586 * unit_interval(1, i, 1));
    const double length = std::exp(std::log(700.0) + sigma * normal);
    costs[i] = 1 + static_cast<int64_t>(length * 1000 + length * length);
  }
  return costs;
}

void rebalance(benchmark::State& state) {
  const auto bins = static_cast<size_t>(state.range(0));
  WindowShape shape;
  shape.bins_per_step = static_cast<uint32_t>(bins / 4);
  shape.width = static_cast<uint32_t>(state.range(1));
  shape.max_delay = static_cast<uint32_t>(state.range(2));
  const auto costs = long_tailed(bins, static_cast<double>(state.range(3)) / 100);
  RebalancedWindow window;
  for (auto _ : state) window = *rebalance_window(costs, shape);
  const auto bound = static_cast<double>(window.lower_bound);
  state.counters["before"] = static_cast<double>(window.time_before) / bound;
  state.counters["after"] = static_cast<double>(window.time_after) / bound;
  state.counters["stayed"] =
      static_cast<double>(window.bins_by_shift[window.reach]) / static_cast<double>(bins);
}
BENCHMARK(rebalance)
    ->ArgNames({"bins", "width", "max_delay", "sigma_percent"})
    ->Args({294'912, 16, 3, 50})
    ->Args({294'912, 64, 3, 100})
    ->Args({294'912, 1024, 3, 100})
    ->Args({294'912, 4096, 1, 100})
    ->Args({294'912, 4096, 3, 150})
    ->Args({4 * 294'912, 4096, 3, 100})
    ->Args({2048, 64, 1, 100})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace overlord::plan
