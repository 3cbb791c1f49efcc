// The power spectrum of windows of 400 samples, four windows side by side in the lanes of a vector.
// Every lane goes through the same operations in the same order, whatever the CPU.
#pragma once

#include <cstddef>

namespace overlord::media {

using Floats4 = float __attribute__((vector_size(16)));

inline constexpr size_t kFftSize = 400;
inline constexpr size_t kFftBins = kFftSize / 2 + 1;

// `starts` are the four windows' first samples; each is weighted by the periodic Hann window.
// power[k] is |X[k]|^2 of the four.
void power_of_four(const float* const (&starts)[4], Floats4 (&power)[kFftBins]);

}  // namespace overlord::media
