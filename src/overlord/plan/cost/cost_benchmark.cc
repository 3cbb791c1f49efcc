// Costs of a step of 294,912 samples under one and two terms.
#include <benchmark/benchmark.h>

#include <array>

#include "overlord/base/rng.h"
#include "overlord/plan/cost/cost.h"
#include "overlord/plan/cost/cost_presets.h"
#include "overlord/plan/made_up_cost_test.h"

namespace overlord::plan {
namespace {

void evaluate_step(benchmark::State& state) {
  const auto rows = static_cast<size_t>(state.range(0));
  const bool both = state.range(1) == 2;
  std::vector<int64_t> tokens(rows);
  std::vector<int64_t> patches(rows);
  for (size_t i = 0; i < rows; ++i) {
    tokens[i] = static_cast<int64_t>(1 + uniform_below(1, i, 0, 32'768));
    patches[i] = static_cast<int64_t>(uniform_below(1, i, 1, 4096));
  }
  const std::array<LengthColumn, 2> columns = {{{"tokens", tokens}, {"image_patches", patches}}};
  model::CostModel model = *preset_cost("llama-12b");
  if (both) {
    const std::array<model::CostModel, 2> parts = {model, *preset_cost("vit-2b")};
    model = sum_cost(parts);
  }
  for (auto _ : state) benchmark::DoNotOptimize(evaluate(model, columns));
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(rows));
}
BENCHMARK(evaluate_step)->Args({294'912, 1})->Args({294'912, 2})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace overlord::plan
