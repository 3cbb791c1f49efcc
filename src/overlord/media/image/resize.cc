#include "overlord/media/image/resize.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "overlord/media/image/resize_kernels.h"

namespace overlord::media {
namespace {

constexpr size_t kWeightSlots = 8;

bool copies(const ResizeAxis& axis) {
  return axis.length == int64_t{axis.size} * axis.per && axis.start % axis.per == 0;
}

int32_t first_copied(const ResizeAxis& axis) {
  return static_cast<int32_t>(axis.start / axis.per) + axis.first;
}

// The source samples that any wanted new sample reads.
struct Reach {
  int32_t from = 0;
  int32_t count = 0;
};
Reach reach_of(const ResizeWeights& weights) {
  int32_t from = weights.starts.front();
  int32_t to = from;
  for (size_t i = 0; i < weights.starts.size(); ++i) {
    to = std::max(to, weights.starts[i] + weights.taps[i]);
  }
  return {from, to - from};
}

}  // namespace

const ResizeWeights& ResizeScratch::weights(const ResizeAxis& axis, ResizeFilter filter) {
  if (slots.empty()) slots.resize(kWeightSlots);
  for (const Slot& slot : slots) {
    if (slot.made && slot.filter == filter && slot.axis == axis) return slot.weights;
  }
  Slot& slot = slots[next_slot];
  next_slot = (next_slot + 1) % kWeightSlots;
  slot.axis = axis;
  slot.filter = filter;
  slot.made = true;
  make_weights(axis, filter, &slot.weights);
  return slot.weights;
}

void resize(const ImageView& source, const ResizeAxis& across, const ResizeAxis& down,
            ResizeFilter filter, ResizeScratch& scratch, uint8_t* to, ptrdiff_t to_stride) {
  OVERLORD_CHECK(across.count > 0 && down.count > 0 && across.high <= source.width &&
                     down.high <= source.height,
                 "resize outside of its source");
  // Asked for twice: making the second may take the slot of the first, but not of the last.
  (void)scratch.weights(down, filter);
  const ResizeWeights& across_weights = scratch.weights(across, filter);
  const ResizeWeights& down_weights = scratch.weights(down, filter);
  const int32_t channels = source.channels;
  // A copy reads its own rows only, though its weights name neighbours with zeros.
  const Reach rows = copies(down) ? Reach{first_copied(down), down.count} : reach_of(down_weights);
  const ptrdiff_t row_bytes = static_cast<ptrdiff_t>(across.count) * channels;

  const uint8_t* between = source.row(rows.from);
  ptrdiff_t between_stride = source.stride;
  if (copies(across)) {
    between += static_cast<ptrdiff_t>(first_copied(across)) * channels;
  } else if (copies(down)) {
    filter_across(between, source.stride, rows.count, channels, across_weights, scratch.columns, to,
                  to_stride);
    return;
  } else {
    const size_t wanted = static_cast<size_t>(row_bytes) * static_cast<size_t>(rows.count);
    if (scratch.rows.size() < wanted) scratch.rows.resize(wanted);
    filter_across(between, source.stride, rows.count, channels, across_weights, scratch.columns,
                  scratch.rows.data(), row_bytes);
    between = scratch.rows.data();
    between_stride = row_bytes;
  }
  for (int32_t y = 0; y < down.count; ++y) {
    uint8_t* const row = to + y * to_stride;
    if (copies(down)) {
      std::memcpy(row, between + y * between_stride, static_cast<size_t>(row_bytes));
      continue;
    }
    const auto i = static_cast<size_t>(y);
    filter_down(between + (down_weights.starts[i] - rows.from) * between_stride, between_stride,
                static_cast<int32_t>(row_bytes),
                down_weights.weights.data() + i * static_cast<size_t>(down_weights.stride),
                down_weights.taps[i], row);
  }
}

}  // namespace overlord::media
