// The schedule of a mixture: the weights of the sources at one moment of the stream. Pure: a
// function of the declared stages, the moment and what the controller remembers.
//
// A stage may have a ramp: from its first step on, over ramp_steps steps, the weights of the stage
// before go over into its own, in a straight line or along a raised cosine. At first_step they are
// still the old ones, at first_step + ramp_steps the new ones. With substep grain the ramp moves at
// every substep. With epoch grain stages and ramps count epochs, and weights hold for a whole one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "overlord/base/ids.h"
#include "overlord/base/status.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/stream_state.h"

namespace overlord::plan {

inline constexpr int64_t kMaxWeight = int64_t{1} << 44;  // keeps virtual time within 128 bits

struct MixMoment {
  StepIndex step = 0;
  uint32_t substep = 0;
  uint64_t epoch = 0;  // of the mixture; with epoch grain
  // Of a metric-driven mixture, as it is for this step; without one the stages alone decide.
  const model::ControllerState* controller = nullptr;
};

// One weight per source. The spec has passed check_mixture.
void weights_at(const model::JobSpec& spec, const MixMoment& moment, std::vector<int64_t>* weights);

// The epoch that a step lies in: so many steps make one, or a pass over the source that gives the
// measure; the step in which that pass ends still belongs to it. 0 without epoch grain.
uint64_t epoch_at(const model::Mixture& mixture, std::span<const uint64_t> source_rows,
                  std::span<const model::SourceCursor> cursors, StepIndex step);

// Whether some step of [first, last] may ask anything of the source. May say yes in vain, never no.
bool may_ask(const model::Mixture& mixture, SourceIndex source, StepIndex first, StepIndex last);

// Everything about a mixture that does not fit the job.
Status check_mixture(const model::JobSpec& spec);
// The part of it that one step needs: cheap enough for every step.
Status check_stages_at(const model::JobSpec& spec, const MixMoment& moment);

// Ready tokens count as many bytes each, whatever their files take: the same document counts the
// same in every format.
inline constexpr uint32_t kReadyTokenBytes = 4;

// Whether bytes follow from the number of tokens. Other text needs them in its metadata.
bool tokens_tell_bytes(const model::Source& source);
// Of such a source: bytes of a document, at least 1.
uint64_t payload_bytes(const model::Source& source, uint32_t tokens);

}  // namespace overlord::plan
