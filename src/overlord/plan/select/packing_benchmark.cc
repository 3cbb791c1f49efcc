// Documents per second, fill and delay of best fit with mixing (six sources). Of one source alone:
// `overlord bench packing`.
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <vector>

#include "overlord/base/rng.h"
#include "overlord/plan/select/selection.h"

namespace overlord::plan {
namespace {

double unit_interval(uint64_t key, uint64_t i, uint64_t j) {
  return (static_cast<double>(random_u64(key, i, j) >> 11) + 0.5) * 0x1p-53;
}

// Lengths of web text: lognormal with sigma 1 and mean 700.
std::vector<uint32_t> web_lengths(uint64_t key, size_t count) {
  std::vector<uint32_t> lengths(count);
  for (size_t i = 0; i < count; ++i) {
    const double normal = std::sqrt(-2.0 * std::log(unit_interval(key, i, 0))) *
                          std::cos(6.283185307179586 * unit_interval(key, i, 1));
    lengths[i] = static_cast<uint32_t>(std::lround(std::exp(std::log(700.0) - 0.5 + normal))) + 1;
  }
  return lengths;
}

// What the planner does: six sources with different weights, windows of 2048 rows.
void select(benchmark::State& state) {
  constexpr size_t kSources = 6;
  constexpr size_t kRows = 1 << 18;
  model::JobSpec spec;
  spec.context = static_cast<uint32_t>(state.range(0));
  spec.bins = 64;
  spec.mixture.stages = {{0, {}}};
  std::vector<MetaBuffer> meta(kSources);
  for (SourceIndex s = 0; s < kSources; ++s) {
    spec.sources.emplace_back().name = std::to_string(s);
    spec.mixture.stages[0].weights.push_back(model::kWeightOne * (s + 1) / 10);
    const auto lengths = web_lengths(s, kRows);
    for (size_t first = 0; first < kRows; first += 2048) {
      auto window = std::make_shared<model::MetaWindow>();
      window->first = {s, 0, first};
      window->tokens.assign(lengths.begin() + first, lengths.begin() + first + 2048);
      meta[s].post(std::move(window));
    }
  }
  const std::vector<uint64_t> rows(kSources, kRows);
  Selector selector;
  model::StreamState stream = initial_state(spec);
  double documents = 0, tokens = 0, capacity = 0;
  uint32_t max_delay = 0;
  for (auto _ : state) {
    auto selected = selector.step(spec, rows, stream, meta);
    if (!selected->content) {  // the posted pass is used up: begin again
      stream = initial_state(spec);
      continue;
    }
    stream = std::move(selected->after);
    documents += static_cast<double>(selected->content->segments.size());
    tokens += static_cast<double>(selected->content->tokens);
    capacity += static_cast<double>(spec.step_tokens(0));
    max_delay = std::max(max_delay, selected->content->max_delay);
  }
  state.counters["docs"] = benchmark::Counter(documents, benchmark::Counter::kIsRate);
  state.counters["fill"] = tokens / capacity;
  state.counters["max_delay"] = max_delay;
}
BENCHMARK(select)->ArgName("context")->Arg(4096)->Arg(32768)->Arg(131072);

}  // namespace
}  // namespace overlord::plan
