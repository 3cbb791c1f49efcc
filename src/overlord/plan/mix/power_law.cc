#include "overlord/plan/mix/power_law.h"

#include <algorithm>
#include <vector>

#include "overlord/base/check.h"
#include "overlord/base/fixed_functions.h"

namespace overlord::plan {
namespace {

constexpr int kGuesses = 22;                       // at eps; they close in on the least loss
constexpr int64_t kHuberWidth = kFixedOne / 1000;  // errors beyond it count linearly
constexpr int64_t kLeastAlpha = kFixedOne >> 20;   // a curve that does not fall
constexpr int64_t kMostAlpha = 2 * kFixedOne;

struct Place {  // in log space
  int64_t x = 0;
  int64_t y = 0;
};

struct Line {
  int64_t slope = 0;
  int64_t height = 0;  // at x = 0
};

std::optional<Line> least_squares(std::span<const Place> places) {
  OVERLORD_CHECK(places.size() >= 3, "a curve has some points");
  const auto n = static_cast<Int128>(places.size());
  Int128 sum_x = 0, sum_y = 0;
  for (const Place& place : places) {
    sum_x += place.x;
    sum_y += place.y;
  }
  const Int128 mean_x = floor_div(sum_x, n);
  const Int128 mean_y = floor_div(sum_y, n);
  Int128 across = 0, along = 0;
  for (const Place& place : places) {
    const Int128 dx = place.x - mean_x;
    across += dx * (place.y - mean_y);
    along += dx * dx;
  }
  along >>= kFixedBits;
  if (along == 0) return std::nullopt;
  const Int128 slope = std::clamp<Int128>(floor_div(across, along), -kMostAlpha, -kLeastAlpha);
  const Int128 height = mean_y - ((slope * mean_x) >> kFixedBits);
  return Line{static_cast<int64_t>(slope), static_cast<int64_t>(height)};
}

// The guess leaves 1, 3/4, 1/2, 3/8, 1/4 ... of the least loss above eps.
int64_t eps_of(int64_t least, int guess) {
  const int64_t above = guess % 2 == 0 ? least : least / 4 * 3;
  const int64_t eps = least - (above >> (guess / 2));
  OVERLORD_CHECK(eps >= 0 && eps <= least, "no loss lies below its limit");
  return eps;
}

Int128 huber(int64_t error) {
  const Int128 size = error < 0 ? -Int128{error} : Int128{error};
  if (size <= kHuberWidth) return size * size / 2;
  return kHuberWidth * (size - kHuberWidth / 2);
}

}  // namespace

std::optional<PowerLaw> fit_power_law(std::span<const model::LossPoint> points) {
  if (points.size() < 3) return std::nullopt;
  int64_t least = points.front().loss;
  for (const model::LossPoint& point : points) least = std::min(least, point.loss);
  if (least <= 0) return std::nullopt;
  std::optional<PowerLaw> best;
  Int128 best_error = 0;
  std::vector<Place> places(points.size());
  for (int guess = 0; guess < kGuesses; ++guess) {
    const int64_t eps = eps_of(least << (kFixedBits - model::kPointLossBits), guess);
    for (size_t i = 0; i < points.size(); ++i) {
      const int64_t loss = points[i].loss << (kFixedBits - model::kPointLossBits);
      places[i] = {points[i].log_tokens << (kFixedBits - model::kPointLogBits),
                   fixed_log(std::max<int64_t>(loss - eps, 1))};
    }
    const std::optional<Line> line = least_squares(places);
    if (!line) return std::nullopt;
    Int128 error = 0;
    for (const Place& place : places) {
      error += huber(place.y - line->height - fixed_mul(line->slope, place.x));
    }
    if (best && error >= best_error) continue;
    OVERLORD_CHECK(line->slope < 0, "a fitted loss falls");
    best = PowerLaw{-line->slope, line->height};
    best_error = error;
  }
  return best;
}

}  // namespace overlord::plan
