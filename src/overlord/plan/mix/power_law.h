// Fits L(n) = eps + beta * n^-alpha to a few points of a loss curve, in fixed point. For each of a
// row of guesses at eps the rest is a straight line in log space, found by least squares; the guess
// with the least Huber error wins, the lower eps of two.
#pragma once

#include <optional>
#include <span>

#include "overlord/model/mixture.h"

namespace overlord::plan {

struct PowerLaw {
  int64_t alpha = 0;  // > 0; 2^-32, as the other
  int64_t log_beta = 0;
};

// Nothing with fewer than three points, or where they all lie at one place.
std::optional<PowerLaw> fit_power_law(std::span<const model::LossPoint> points);

}  // namespace overlord::plan
