// FreeRanges: which addresses of some runs of memory are free. Best fit, neighbours merged, all in
// O(log ranges). It never looks at the memory. Not thread-safe; owned by the pool that locks it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace overlord::transport {

class FreeRanges {
 public:
  // Two runs that touch would be merged: runs are kept apart by who makes them.
  void add(uintptr_t begin, size_t size_bytes);
  // The lowest addresses of the smallest range that fits.
  std::optional<uintptr_t> take(size_t size_bytes);
  // What take() gave, or add() told.
  void give_back(uintptr_t begin, size_t size_bytes) { add(begin, size_bytes); }
  // Takes a run out for good; false unless all of it is free.
  bool remove(uintptr_t begin, size_t size_bytes);
  bool is_free(uintptr_t begin, size_t size_bytes) const;

  uint64_t free_bytes() const { return free_bytes_; }
  size_t largest_bytes() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }
  size_t count() const { return by_begin_.size(); }

 private:
  using Ranges = std::map<uintptr_t, size_t>;  // begin -> size
  void insert(uintptr_t begin, size_t size_bytes);
  void erase(Ranges::iterator range);

  Ranges by_begin_;
  std::set<std::pair<size_t, uintptr_t>> by_size_;
  uint64_t free_bytes_ = 0;
};

}  // namespace overlord::transport
