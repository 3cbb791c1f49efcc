// Time of ordering the microbatches of one pipeline, and of the 64 pipelines of a step.
#include <benchmark/benchmark.h>

#include <vector>

#include "overlord/base/rng.h"
#include "overlord/plan/pipeline/pipeline_order.h"

namespace overlord::plan {
namespace {

void order(benchmark::State& state) {
  const PipelineShape shape{static_cast<uint32_t>(state.range(0)),
                            static_cast<uint32_t>(state.range(1))};
  const auto microbatches = static_cast<size_t>(state.range(2));
  const auto pipelines = static_cast<uint32_t>(state.range(3));
  std::vector<int64_t> costs(microbatches * pipelines);
  for (size_t i = 0; i < costs.size(); ++i) {  // a factor of eight between small and large
    const auto small = static_cast<int64_t>(1000 + uniform_below(1, i, 0, 1000));
    costs[i] = small << uniform_below(1, i, 1, 3);
  }
  OrderedStep step;
  for (auto _ : state) step = *order_step(OrderMethod::kSearch, shape, costs, pipelines);
  const auto time = static_cast<double>(step.step_time);
  state.counters["over_kept"] = time / static_cast<double>(step.kept_step_time);
  state.counters["over_bound"] = time / static_cast<double>(step.lower_bound);
}
BENCHMARK(order)
    ->ArgNames({"stages", "virtual_stages", "microbatches", "pipelines"})
    ->Args({4, 1, 8, 1})
    ->Args({8, 1, 32, 1})
    ->Args({8, 2, 32, 1})
    ->Args({16, 1, 128, 1})
    ->Args({8, 1, 32, 64})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace overlord::plan
