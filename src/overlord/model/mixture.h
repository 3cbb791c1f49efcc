// Mixture: how much of each source a step asks for, as the config declares it, and what a
// metric-driven mixture is told and remembers. Everything is an integer (law 10): what a float
// decided was quantised before it came here.
#pragma once

#include <cstdint>
#include <vector>

#include "overlord/base/fields.h"
#include "overlord/base/ids.h"

namespace overlord::model {

enum class MixUnit : uint8_t { kTokens, kSamples, kBytes };
enum class Quota : uint8_t { kExact, kMultinomial };
enum class Ramp : uint8_t { kNone, kLinear, kCosine };
// How often weights may change. By epoch, stages and ramps count epochs of the mixture.
enum class Grain : uint8_t { kStep, kSubstep, kEpoch };
enum class ControllerKind : uint8_t { kNone, kOdm, kAdo, kRule };

// Weights are ratios in fixed point: 1.0 == kWeightOne.
inline constexpr int64_t kWeightOne = int64_t{1} << 32;
// Loss sums are reported in units of 2^-kLossBits.
inline constexpr int kLossBits = 12;

struct MixtureStage {
  StepIndex first_step = 0;  // with Grain::kEpoch: the first epoch
  // One per source, in source order; at least one > 0. With Grain::kSubstep there may be one such
  // row for every substep instead.
  std::vector<int64_t> weights;
  // How the weights of the stage before go over into these, from first_step on.
  Ramp ramp = Ramp::kNone;
  uint64_t ramp_steps = 0;

  OVERLORD_FIELDS(first_step, weights, ramp, ramp_steps)
};

// Weights that follow reported losses. Shares are fixed point like weights.
struct ControllerSpec {
  ControllerKind kind = ControllerKind::kNone;
  uint32_t delay = 8;  // what was reported of step k counts from step k + delay on
  int64_t smoothing = kWeightOne / 10 * 9;    // odm: how much of the old reward stays
  int64_t history_rate = kWeightOne / 10;     // ado: how fast the memory of shares follows
  int64_t follow_rate = kWeightOne / 10;      // ado: how far shares follow the preference
  int64_t history_exponent = kWeightOne / 2;  // ado: how much having been served counts
  int64_t floor = kWeightOne / 100;           // ado: least share, capped at half an equal one
  uint32_t fit_every = 1000;                  // ado: steps between two fits of a source
  uint32_t fit_after = 500;                   // ado: first steps, which are not fitted
  uint32_t rule_version = 0;                  // rule: of the user's function

  OVERLORD_FIELDS(kind, delay, smoothing, history_rate, follow_rate, history_exponent, floor,
                  fit_every, fit_after, rule_version)
};

struct Mixture {
  MixUnit unit = MixUnit::kTokens;
  Quota quota = Quota::kExact;
  std::vector<MixtureStage> stages;  // sorted, the first starts at step 0
  uint32_t version = 1;
  Grain grain = Grain::kStep;
  // Grain::kEpoch: an epoch is so many steps, or, where that is 0, one pass over a source.
  uint64_t epoch_steps = 0;
  SourceIndex epoch_source = 0;
  // Empty, or one per source: a source with `repeat` is dry after so many passes; 0: never.
  std::vector<uint32_t> max_passes;
  ControllerSpec controller;  // with one: a single stage, the prior
  // Empty, or one per source: after its max_passes it gives such a share of one more.
  std::vector<int64_t> part_passes;

  bool metric_driven() const { return controller.kind != ControllerKind::kNone; }

  OVERLORD_FIELDS(unit, quota, stages, version, grain, epoch_steps, epoch_source, max_passes,
                  controller, part_passes)
};

// Losses of one source in one step: sums over its target tokens.
struct SourceLoss {
  SourceIndex source = 0;
  int64_t loss = 0;     // 2^-kLossBits
  uint64_t tokens = 0;  // that the sum is over

  friend bool operator==(const SourceLoss&, const SourceLoss&) = default;
};

// What was reported of one step by all reporters together. Logged (law 6).
struct StepFeedback {
  StepIndex step = 0;
  std::vector<SourceLoss> losses;  // by source, ascending; sources that had no tokens are left out
  std::vector<int64_t> weights;    // of a user's rule; else empty

  friend bool operator==(const StepFeedback&, const StepFeedback&) = default;
};

// A point of a source's loss curve: ln(tokens) and the mean loss there.
struct LossPoint {
  int64_t log_tokens = 0;  // 2^-kPointLogBits
  int64_t loss = 0;        // 2^-kPointLossBits

  friend bool operator==(const LossPoint&, const LossPoint&) = default;
};
inline constexpr int kPointLogBits = 10;
inline constexpr int kPointLossBits = 14;
// Fitted numbers keep so many low bits clear: a state has no room for them.
inline constexpr int kFitCoarseBits = 12;

// What a controller remembers of one source.
struct SourceMemory {
  int64_t weight = 0;  // the share in force
  int64_t reward = 0;  // odm
  // ado, from here on
  uint64_t tokens = 0;     // reported since the start
  int64_t since_loss = 0;  // reported since the last point
  uint64_t since_tokens = 0;
  int64_t alpha = 0;  // of the fitted loss curve; 0: not fitted yet
  int64_t log_beta = 0;
  int64_t history = 0;  // smoothed share
  int64_t average = 0;  // mean share
  std::vector<LossPoint> points;

  friend bool operator==(const SourceMemory&, const SourceMemory&) = default;
};

// The controller's part of the stream state (law 7).
struct ControllerState {
  ControllerKind kind = ControllerKind::kNone;
  uint32_t delay = 0;
  StepIndex since = 0;    // the first step whose feedback counts
  uint64_t updates = 0;   // feedback taken so far
  uint64_t averaged = 0;  // ado: updates in the mean shares
  std::vector<SourceMemory> sources;

  friend bool operator==(const ControllerState&, const ControllerState&) = default;
};

}  // namespace overlord::model
