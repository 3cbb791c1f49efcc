// Binds what the bench of metric-driven mixing measures: one step's update and its quotas.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bound.h"
#include "overlord/base/enum_names.h"
#include "overlord/base/rng.h"
#include "overlord/plan/mix/mix_controller.h"
#include "overlord/plan/mix/mixing.h"
#include "overlord/plan/select/selection.h"
#include "overlord/protocol/state_codec.h"
#include "overlord/runtime/steady_clock.h"

namespace nb = nanobind;

namespace overlord::bench {
namespace {

model::JobSpec mixing_job(model::ControllerKind kind, uint32_t sources) {
  model::JobSpec spec;
  spec.context = 4096;
  spec.bins = 512;
  spec.sources.resize(sources);
  spec.mixture.stages = {{0, std::vector<int64_t>(sources, model::kWeightOne / sources)}};
  spec.mixture.controller.kind = kind;
  spec.mixture.controller.fit_after = 8;
  return spec;
}

// Losses that fall with the steps, and differ by source.
model::StepFeedback made_up_feedback(StepIndex step, uint32_t sources) {
  model::StepFeedback feedback{step, {}, {}};
  for (SourceIndex s = 0; s < sources; ++s) {
    const uint64_t tokens = 4000 + uniform_below(11, step, s, 6000);
    const auto mean = static_cast<int64_t>(6'000 + 12'000 * (s + 1) / (step + s + 1));
    feedback.losses.push_back({s, static_cast<int64_t>(tokens) * mean, tokens});
  }
  return feedback;
}

// Milliseconds of every step: feedback taken, weights set, quotas ready for the first document.
nb::dict mix_stats(const std::string& kind, uint32_t sources, uint64_t steps) {
  const model::JobSpec spec =
      mixing_job(unwrap(enum_of<model::ControllerKind>(kind, "kind")), sources);
  model::StreamState state = plan::initial_state(spec);
  const std::vector<plan::MetaBuffer> meta(sources);
  const std::vector<uint64_t> rows(sources, 1'000'000);
  std::vector<double> times_ms;
  plan::Mixer mixer;
  {
    nb::gil_scoped_release free;
    for (StepIndex step = 0; step < steps; ++step) {
      const model::StepFeedback feedback = made_up_feedback(step, sources);
      const int64_t begin_ns = runtime::steady_now_ns();
      plan::take_feedback(spec, feedback, &state.controller);
      const Status begun = mixer.begin(spec, rows, meta, state.cursors, step, &state.controller);
      OVERLORD_CHECK(begun.ok(), "a made-up mixture fits its sources");
      times_ms.push_back(static_cast<double>(runtime::steady_now_ns() - begin_ns) / 1e6);
    }
  }
  nb::dict out;
  out["ms"] = times_ms;
  out["state_bytes"] = protocol::encode_stream_state(state).size();
  return out;
}

}  // namespace

void bind_mixing(nb::module_& m) {
  m.def("mix_stats", &mix_stats, nb::arg("kind"), nb::arg("sources"), nb::arg("steps"),
        "Milliseconds of each step of a metric-driven mixture, from feedback to quotas.");
}

}  // namespace overlord::bench
