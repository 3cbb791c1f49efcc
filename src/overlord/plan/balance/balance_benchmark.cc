// Time and gap of the balancers on 32,768 sequences for 1,024 ranks, of a harder shape (few atoms
// to a bin), and of two costs at once.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "overlord/base/rng.h"
#include "overlord/plan/balance/balance.h"
#include "overlord/plan/balance/balance_vector.h"

namespace overlord::plan {
namespace {

enum Shape { kWeb, kLong, kUniform };

double unit_interval(uint64_t key, uint64_t i, uint64_t j) {
  return (static_cast<double>(random_u64(key, i, j) >> 11) + 0.5) * 0x1p-53;
}

double normal(uint64_t key, uint64_t i) {
  return std::sqrt(-2.0 * std::log(unit_interval(key, i, 0))) *
         std::cos(6.283185307179586 * unit_interval(key, i, 1));
}

std::vector<int64_t> sequence_costs(int shape, size_t count, uint64_t key = 1) {
  std::vector<int64_t> costs(count);
  for (size_t i = 0; i < count; ++i) {
    double length = 64 + 4032 * unit_interval(key, i, 2);
    if (shape == kWeb) length = std::min(32768.0, std::exp(6.6 + 1.2 * normal(key, i)));
    if (shape == kLong) length = std::min(131072.0, std::exp(7.4 + 1.7 * normal(key, i)));
    const auto s = std::max<int64_t>(1, std::llround(std::floor(length)));
    costs[i] = 24576 * s + s * s;
  }
  return costs;
}

double gap_percent(int64_t load, int64_t bound) {
  return 100.0 * static_cast<double>(load - bound) / static_cast<double>(bound);
}

void balance(benchmark::State& state) {
  const auto method = static_cast<BalanceMethod>(state.range(0));
  const auto costs = sequence_costs(static_cast<int>(state.range(1)), state.range(3));
  BalanceProblem problem;
  problem.costs = costs;
  problem.equal_count = state.range(2) != 0;
  problem.bins = static_cast<uint32_t>(state.range(4));
  Balancer balancer;
  Balanced out;
  for (auto _ : state) out = *balancer.run(method, problem);
  state.counters["gap_percent"] = gap_percent(out.max_load, out.lower_bound);
  state.counters["operations"] = static_cast<double>(out.search_operations);
  state.SetLabel(std::string(balance_method_name(method)) +
                 ", bound: " + std::string(load_limit_name(out.bound_by)));
}
BENCHMARK(balance)
    ->ArgNames({"method", "shape", "equal", "atoms", "bins"})
    ->ArgsProduct({{0, 1, 2, 3, 4, 5}, {kWeb, kLong, kUniform}, {0, 1}, {32768}, {1024}})
    ->ArgsProduct({{2, 3, 4}, {kUniform}, {0, 1}, {3072, 8192}, {1024}})
    ->ArgsProduct({{3}, {kWeb, kLong}, {0}, {294912}, {64, 4096}})
    ->Unit(benchmark::kMillisecond);

// A backbone's costs, and an encoder's for half of the samples.
void vector_lpt(benchmark::State& state) {
  const auto text = sequence_costs(kWeb, state.range(0), 1);
  auto image = sequence_costs(kUniform, state.range(0), 2);
  for (size_t i = 0; i < image.size(); i += 2) image[i] = 0;
  const std::span<const int64_t> costs[] = {image, text};
  VectorProblem problem;
  problem.costs = costs;
  problem.bins = static_cast<uint32_t>(state.range(1));
  VectorBalancer balancer;
  VectorBalanced out;
  for (auto _ : state) out = *balancer.vector_lpt(problem);
  state.counters["image_gap"] = gap_percent(out.kinds[0].max_load, out.kinds[0].bound.load);
  state.counters["text_gap"] = gap_percent(out.kinds[1].max_load, out.kinds[1].bound.load);
}
BENCHMARK(vector_lpt)
    ->ArgNames({"atoms", "bins"})
    ->Args({1024, 32})
    ->Args({32768, 1024})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace overlord::plan
