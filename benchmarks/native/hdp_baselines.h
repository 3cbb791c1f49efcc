// What hybrid data parallelism is measured against, for `overlord bench hdp`: one context-parallel
// degree for everything, and groups of powers of two filled microbatch by microbatch. Judged by the
// same cost model as our plans.
#pragma once

#include <cstdint>

#include "overlord/base/status.h"
#include "overlord/plan/hybrid/hdp.h"

namespace overlord::bench {

// Sequences are packed into bins that fill a group of fixed size, enough for `context` tokens and
// for the longest sequence, and the bins are dealt out in order: what context parallelism does when
// the longest sequence decides for all.
Result<plan::HdpPlan> plan_static(const plan::HdpProblem& problem, uint32_t context);

// Degree 2^ceil(log2(length / capacity)); longest first; idle ranks double the smallest groups; all
// ranks run the same number of microbatches (but need not wait for each other in between).
Result<plan::HdpPlan> plan_powers_of_two(const plan::HdpProblem& problem);

}  // namespace overlord::bench
