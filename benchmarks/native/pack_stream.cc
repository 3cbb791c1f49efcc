#include "pack_stream.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "overlord/plan/select/selection.h"

namespace overlord::bench {

PackStats pack_stream(std::span<const uint32_t> lengths, uint32_t context, uint32_t bins,
                      uint32_t slack_permille, uint32_t max_delay_steps) {
  model::JobSpec spec;
  spec.context = context;
  spec.bins = bins;
  spec.packing = {model::Packing::kBestFit, slack_permille, max_delay_steps};
  spec.mixture.stages = {{0, {model::kWeightOne}}};
  model::Source source;
  source.name = "lengths";
  source.at_end = model::EndPolicy::kDrop;
  source.bad_rows_allowed = 0xffffffffu;  // a length of 0 is passed over
  spec.sources = {source};

  auto window = std::make_shared<model::MetaWindow>();
  window->tokens.assign(lengths.begin(), lengths.end());
  std::vector<plan::MetaBuffer> meta(1);
  meta[0].post(std::move(window));
  const uint64_t rows[] = {lengths.size()};

  PackStats stats;
  uint64_t lasting_tokens = 0;
  uint64_t lasting_steps = 0;
  plan::Selector selector;
  model::StreamState state = plan::initial_state(spec);
  while (!state.ended) {
    auto selected = selector.step(spec, rows, state, meta);
    if (!selected.ok()) break;  // nothing to pack
    state = std::move(selected->after);
    const plan::StepContent& content = *selected->content;
    ++stats.steps;
    stats.tokens += content.tokens;
    stats.max_delay = std::max(stats.max_delay, content.max_delay);
    if (!state.cursors[0].dry) {
      lasting_tokens += content.tokens;
      ++lasting_steps;
    }
  }
  stats.documents = state.cursors[0].samples;
  const uint64_t capacity = lasting_steps * spec.step_tokens(0);
  if (capacity > 0) stats.fill_ppm = static_cast<uint32_t>(lasting_tokens * 1'000'000 / capacity);
  return stats;
}

}  // namespace overlord::bench
