#include "overlord/transport/shared/free_ranges.h"

#include <iterator>

#include "overlord/base/check.h"

namespace overlord::transport {

void FreeRanges::insert(uintptr_t begin, size_t size_bytes) {
  by_begin_.emplace(begin, size_bytes);
  by_size_.emplace(size_bytes, begin);
  free_bytes_ += size_bytes;
}

void FreeRanges::erase(Ranges::iterator range) {
  by_size_.erase({range->second, range->first});
  free_bytes_ -= range->second;
  by_begin_.erase(range);
}

void FreeRanges::add(uintptr_t begin, size_t size_bytes) {
  uintptr_t end = begin + size_bytes;
  auto next = by_begin_.lower_bound(begin);
  OVERLORD_CHECK(next == by_begin_.end() || next->first >= end, "memory given back twice");
  if (next != by_begin_.begin()) {
    const auto previous = std::prev(next);
    const uintptr_t previous_end = previous->first + previous->second;
    OVERLORD_CHECK(previous_end <= begin, "memory given back twice");
    if (previous_end == begin) {
      begin = previous->first;
      erase(previous);
    }
  }
  if (next != by_begin_.end() && next->first == end) {
    end += next->second;
    erase(next);
  }
  insert(begin, end - begin);
}

std::optional<uintptr_t> FreeRanges::take(size_t size_bytes) {
  const auto found = by_size_.lower_bound({size_bytes, 0});
  if (found == by_size_.end()) return std::nullopt;
  const auto [size, begin] = *found;
  erase(by_begin_.find(begin));
  if (size > size_bytes) insert(begin + size_bytes, size - size_bytes);
  return begin;
}

bool FreeRanges::is_free(uintptr_t begin, size_t size_bytes) const {
  auto range = by_begin_.upper_bound(begin);
  if (range == by_begin_.begin()) return false;
  --range;
  return range->first + range->second >= begin + size_bytes;
}

bool FreeRanges::remove(uintptr_t begin, size_t size_bytes) {
  if (!is_free(begin, size_bytes)) return false;
  auto range = std::prev(by_begin_.upper_bound(begin));
  const uintptr_t old_begin = range->first;
  const uintptr_t old_end = range->first + range->second;
  erase(range);
  if (old_begin < begin) insert(old_begin, begin - old_begin);
  if (begin + size_bytes < old_end) insert(begin + size_bytes, old_end - begin - size_bytes);
  return true;
}

}  // namespace overlord::transport
