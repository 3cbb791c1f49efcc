#include "overlord/plan/mix/mix_schedule.h"

#include <algorithm>
#include <limits>
#include <string>

#include "overlord/base/check.h"
#include "overlord/base/fixed_functions.h"

namespace overlord::plan {
namespace {

using model::Grain;
using model::Mixture;
using model::MixtureStage;
using model::Ramp;

// What stages and ramps count in: steps, or epochs.
uint64_t time_of(const Mixture& mixture, const MixMoment& moment) {
  return mixture.grain == Grain::kEpoch ? moment.epoch : moment.step;
}

// The stage that holds at a step (or epoch).
size_t stage_at(const Mixture& mixture, StepIndex step) {
  OVERLORD_CHECK(!mixture.stages.empty() && mixture.stages.front().first_step <= step,
                 "some stage holds at every step");
  size_t at = 0;
  while (at + 1 < mixture.stages.size() && mixture.stages[at + 1].first_step <= step) ++at;
  return at;
}

// A stage's weight of a source; one row holds for all substeps.
int64_t weight_of(const MixtureStage& stage, size_t sources, size_t source, uint32_t substep) {
  OVERLORD_CHECK(source < sources && stage.weights.size() % sources == 0,
                 "a weight per source and row");
  return stage.weights.size() == sources ? stage.weights[source]
                                         : stage.weights[substep * sources + source];
}

bool in_ramp(const MixtureStage& stage, StepIndex step) {
  return stage.ramp != Ramp::kNone && step - stage.first_step < stage.ramp_steps;
}

int64_t between(Ramp ramp, int64_t from, int64_t to, uint64_t part, uint64_t whole) {
  OVERLORD_CHECK(whole > 0 && part <= whole, "a moment of the ramp");
  if (ramp == Ramp::kLinear) {
    const Int128 sum = Int128{from} * (whole - part) + Int128{to} * part;
    return static_cast<int64_t>(sum / whole);
  }
  const int64_t rise = fixed_raised_cosine(part, whole);
  const Int128 sum = Int128{from} * (kFixedOne - rise) + Int128{to} * rise;
  return static_cast<int64_t>(sum >> kFixedBits);
}

Status check_row(const model::JobSpec& spec, const MixtureStage& stage, size_t row) {
  const std::string where = "mixture from step " + std::to_string(stage.first_step);
  const size_t sources = spec.sources.size();
  Int128 sum = 0;
  for (size_t s = 0; s < sources; ++s) {
    const int64_t weight = stage.weights[row * sources + s];
    if (weight < 0 || weight > kMaxWeight) {
      return invalid_argument(where + ": weight of " + spec.sources[s].name +
                              " must be between 0 and " +
                              std::to_string(kMaxWeight / model::kWeightOne));
    }
    sum += weight;
  }
  if (sum == 0) return invalid_argument(where + ": all weights are 0");
  return {};
}

Status check_stage(const model::JobSpec& spec, const MixtureStage& stage) {
  const std::string where = "mixture from step " + std::to_string(stage.first_step);
  const size_t sources = spec.sources.size();
  const bool by_substep = spec.mixture.grain == Grain::kSubstep;
  const bool fits = stage.weights.size() == sources ||
                    (by_substep && stage.weights.size() == sources * spec.substeps);
  if (!fits) {
    return invalid_argument(where + ": one weight per source is needed" +
                            (by_substep ? ", or one per source for every substep" : ""));
  }
  for (size_t row = 0; row * sources < stage.weights.size(); ++row) {
    OVERLORD_RETURN_IF_ERROR(check_row(spec, stage, row));
  }
  if ((stage.ramp == Ramp::kNone) != (stage.ramp_steps == 0)) {
    return invalid_argument(where + ": a ramp needs a shape and a number of steps");
  }
  if (stage.ramp_steps > (uint64_t{1} << 40)) {
    return invalid_argument(where + ": a ramp has at most 2^40 steps");
  }
  return {};
}

Status check_controller(const model::JobSpec& spec) {
  const model::ControllerSpec& controller = spec.mixture.controller;
  if (!spec.mixture.metric_driven()) return {};
  if (spec.mixture.stages.size() != 1 || spec.mixture.grain != Grain::kStep) {
    return invalid_argument(
        "mixture: a metric-driven one has one stage, its prior, and moves by step");
  }
  if (controller.delay == 0 || controller.delay > 4096) {
    return invalid_argument("mixture: the feedback's delay is from 1 to 4096 steps, got " +
                            std::to_string(controller.delay));
  }
  const int64_t shares[] = {controller.smoothing, controller.history_rate, controller.follow_rate,
                            controller.history_exponent, controller.floor};
  for (const int64_t share : shares) {
    if (share < 0 || share > kFixedOne) {
      return invalid_argument("mixture: a controller's rates and floor are from 0 to 1");
    }
  }
  if (controller.fit_every == 0) return invalid_argument("mixture: fit_every starts at 1");
  return {};
}

// An epoch ends only if the source that measures it is read.
Status check_epoch(const model::JobSpec& spec) {
  const Mixture& mixture = spec.mixture;
  if (mixture.grain != Grain::kEpoch || mixture.epoch_steps > 0) return {};
  if (mixture.epoch_source >= spec.sources.size()) {
    return invalid_argument("mixture.epoch: needs a number of steps, or a source of the job");
  }
  for (size_t i = 0; i + 1 < mixture.stages.size(); ++i) {
    const MixtureStage& stage = mixture.stages[i];
    const bool empty = mixture.stages[i + 1].first_step == stage.first_step;
    if (empty || stage.weights[mixture.epoch_source] > 0) continue;
    return invalid_argument("mixture from epoch " + std::to_string(stage.first_step) +
                            ": an epoch is a pass over " + spec.sources[mixture.epoch_source].name +
                            ", which has no weight there: the epoch would never end");
  }
  return {};
}

}  // namespace

void weights_at(const model::JobSpec& spec, const MixMoment& moment,
                std::vector<int64_t>* weights) {
  const size_t sources = spec.sources.size();
  const Mixture& mixture = spec.mixture;
  weights->resize(sources);
  if (moment.controller != nullptr && !moment.controller->sources.empty()) {
    OVERLORD_CHECK(moment.controller->sources.size() == sources, "the controller is of this job");
    for (size_t s = 0; s < sources; ++s) (*weights)[s] = moment.controller->sources[s].weight;
    return;
  }
  const uint64_t time = time_of(mixture, moment);
  const size_t at = stage_at(mixture, time);
  const MixtureStage& stage = mixture.stages[at];
  const bool ramping = at > 0 && in_ramp(stage, time);
  const bool fine = mixture.grain == Grain::kSubstep;
  const uint64_t parts = fine ? spec.substeps : 1;
  const uint64_t part = (time - stage.first_step) * parts + (fine ? moment.substep : 0);
  for (size_t s = 0; s < sources; ++s) {
    const int64_t to = weight_of(stage, sources, s, moment.substep);
    (*weights)[s] =
        !ramping
            ? to
            : between(stage.ramp, weight_of(mixture.stages[at - 1], sources, s, moment.substep), to,
                      part, stage.ramp_steps * parts);
  }
}

uint64_t epoch_at(const Mixture& mixture, std::span<const uint64_t> source_rows,
                  std::span<const model::SourceCursor> cursors, StepIndex step) {
  if (mixture.grain != Grain::kEpoch) return 0;
  OVERLORD_CHECK(cursors.size() == source_rows.size(), "a cursor per source");
  if (mixture.epoch_steps > 0) return step / mixture.epoch_steps;
  const model::SourceCursor& cursor = cursors[mixture.epoch_source];
  // A cursor at its end goes over into the next pass when it is asked for a document.
  const bool through = cursor.position >= source_rows[mixture.epoch_source];
  return uint64_t{cursor.pass} + (through ? 1 : 0);
}

bool may_ask(const Mixture& mixture, SourceIndex source, StepIndex first, StepIndex last) {
  if (mixture.grain == Grain::kEpoch) {
    const uint64_t steps = mixture.epoch_steps;
    first = steps > 0 ? first / steps : 0;  // when a pass ends is not known ahead
    last = steps > 0 ? last / steps : std::numeric_limits<StepIndex>::max();
  }
  const size_t sources = std::min_element(mixture.stages.begin(), mixture.stages.end(),
                                          [](const MixtureStage& a, const MixtureStage& b) {
                                            return a.weights.size() < b.weights.size();
                                          })
                             ->weights.size();
  const auto weighted = [&](const MixtureStage& stage) {
    for (size_t at = source; at < stage.weights.size(); at += sources) {
      if (stage.weights[at] > 0) return true;
    }
    return false;
  };
  for (size_t i = stage_at(mixture, first); i < mixture.stages.size(); ++i) {
    const MixtureStage& stage = mixture.stages[i];
    if (stage.first_step > last) break;
    if (weighted(stage)) return true;
    // While it ramps, the stage before still has its say.
    if (i > 0 && in_ramp(stage, std::max(first, stage.first_step)) &&
        weighted(mixture.stages[i - 1])) {
      return true;
    }
  }
  return false;
}

Status check_mixture(const model::JobSpec& spec) {
  const auto& stages = spec.mixture.stages;
  if (stages.empty() || stages.front().first_step != 0) {
    return invalid_argument("mixture: the first stage must start at step 0");
  }
  if (stages.front().ramp != Ramp::kNone) {
    return invalid_argument("mixture: the first stage has no stage before it to ramp from");
  }
  for (size_t i = 0; i < stages.size(); ++i) {
    // A stage of no length is only there for the next one to ramp from.
    const bool empty = i > 0 && stages[i].first_step == stages[i - 1].first_step;
    if (i > 0 &&
        (empty ? stages[i].ramp == Ramp::kNone : stages[i].first_step < stages[i - 1].first_step)) {
      return invalid_argument("mixture: stages must start at growing steps");
    }
    OVERLORD_RETURN_IF_ERROR(check_stage(spec, stages[i]));
    if (i > 0 && stages[i].first_step - stages[i - 1].first_step < stages[i - 1].ramp_steps) {
      return invalid_argument("mixture from step " + std::to_string(stages[i - 1].first_step) +
                              ": its ramp is longer than the stage");
    }
  }
  const auto& caps = spec.mixture.max_passes;
  if (!caps.empty() && caps.size() != spec.sources.size()) {
    return invalid_argument("mixture: max_passes needs one number per source");
  }
  const auto& parts = spec.mixture.part_passes;
  if (!parts.empty() && parts.size() != caps.size()) {
    return invalid_argument("mixture: part_passes needs one number beside each of max_passes");
  }
  OVERLORD_RETURN_IF_ERROR(check_epoch(spec));
  if (spec.mixture.unit == model::MixUnit::kBytes) {
    for (const model::Source& source : spec.sources) {
      if (tokens_tell_bytes(source) || source.count_bytes) continue;
      return invalid_argument(
          "mixture: unit bytes needs the bytes of every document, and the metadata of source " +
          source.name + " does not count them; use tokens or samples");
    }
  }
  return check_controller(spec);
}

Status check_stages_at(const model::JobSpec& spec, const MixMoment& moment) {
  const auto& stages = spec.mixture.stages;
  if (stages.empty() || stages.front().first_step != 0) {
    return invalid_argument("the mixture has no stage for step 0");
  }
  const size_t at = stage_at(spec.mixture, time_of(spec.mixture, moment));
  if (at > 0) OVERLORD_RETURN_IF_ERROR(check_stage(spec, stages[at - 1]));
  return check_stage(spec, stages[at]);
}

bool tokens_tell_bytes(const model::Source& source) {
  return source.tokenizer.kind != model::TokenizerKind::kHuggingface;
}

uint64_t payload_bytes(const model::Source& source, uint32_t tokens) {
  OVERLORD_CHECK(tokens_tell_bytes(source), "other text counts its bytes");
  const uint32_t special = (source.bos ? 1u : 0u) + (source.eod ? 1u : 0u);
  const uint64_t width =
      source.tokenizer.kind == model::TokenizerKind::kBytes ? 1 : kReadyTokenBytes;
  return tokens > special ? (tokens - special) * width : 1;
}

}  // namespace overlord::plan
