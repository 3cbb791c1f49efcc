#include "overlord/plan/balance/balance_differencing.h"

#include <algorithm>

#include "overlord/base/check.h"
#include "overlord/plan/balance/balance.h"

namespace overlord::plan {

void Differencing::run(const AtomOrder& order, uint32_t bins, bool equal_count,
                       std::span<uint32_t> bin_of) {
  if (order.size() == 0) return;
  bins_ = bins;
  make_parts(order, equal_count);
  // A total order, so that the heap's inner order does not matter: the widest spread, then the
  // part that began with larger atoms.
  const auto below = [](const Spread& a, const Spread& b) {
    return a.difference != b.difference ? a.difference < b.difference : a.part > b.part;
  };
  std::make_heap(heap_.begin(), heap_.end(), below);
  while (heap_.size() > 1) {
    std::pop_heap(heap_.begin(), heap_.end(), below);
    const uint32_t first = heap_.back().part;
    heap_.pop_back();
    std::pop_heap(heap_.begin(), heap_.end(), below);
    const uint32_t second = heap_.back().part;
    uint32_t large = first, small = second;
    if (parts_[large].size() < parts_[small].size()) std::swap(large, small);
    join(&parts_[large], &parts_[small]);
    heap_.back() = {spread_of(parts_[large]), large};
    std::push_heap(heap_.begin(), heap_.end(), below);
  }
  const Part& whole = parts_[heap_.front().part];
  size_t placed = 0;
  for (uint32_t bin = 0; bin < whole.size(); ++bin) {
    for (uint32_t at = whole[bin].head; at != kNoAtom; at = next_[at]) {
      bin_of[order.atoms()[at]] = bin;
      ++placed;
    }
  }
  OVERLORD_CHECK(whole.size() <= bins && placed == order.size(), "every atom is in one chain");
}

void Differencing::make_parts(const AtomOrder& order, bool equal_count) {
  const size_t count = order.size();
  const size_t run = equal_count ? bins_ : 1;
  const size_t parts = (count + run - 1) / run;
  if (parts_.size() < parts) parts_.resize(parts);
  next_.assign(count, kNoAtom);
  heap_.clear();
  for (uint32_t number = 0; number < parts; ++number) {
    Part& part = parts_[number];
    part.clear();
    for (size_t at = number * run; at < std::min(count, (number + 1) * run); ++at) {
      part.push_back({order.values()[at], static_cast<uint32_t>(at), static_cast<uint32_t>(at)});
    }
    heap_.push_back({spread_of(part), number});
  }
}

int64_t Differencing::spread_of(const Part& part) const {
  OVERLORD_CHECK(part.front().load >= part.back().load, "the fullest bin of a part is first");
  return part.front().load - (part.size() == bins_ ? part.back().load : 0);
}

void Differencing::join(Part* large, Part* small) {
  OVERLORD_CHECK(large->size() <= bins_ && small->size() <= large->size(),
                 "a part has a bin at most once");
  if (large->size() + small->size() <= bins_) {
    join_apart(large, *small);
  } else {
    join_overlapping(large, *small);
  }
  small->clear();
}

// Each bin of one part meets an empty bin of the other.
void Differencing::join_apart(Part* large, const Part& small) {
  if (small.size() == 1) {
    large->insert(std::upper_bound(large->begin(), large->end(), small[0], is_fuller), small[0]);
    return;
  }
  merged_.resize(large->size() + small.size());
  std::merge(large->begin(), large->end(), small.begin(), small.end(), merged_.begin(), is_fuller);
  large->swap(merged_);
}

// The small part's bins, fullest first, go to the places bins_ - 1, bins_ - 2, ... of the large
// one. Places that do not exist yet are empty bins. Everything before keeps its order.
void Differencing::join_overlapping(Part* large, const Part& small) {
  const size_t kept = bins_ - small.size();
  changed_.clear();
  for (size_t i = 0; i < small.size(); ++i) {
    const size_t place = bins_ - 1 - i;
    changed_.push_back(place < large->size() ? chain((*large)[place], small[i]) : small[i]);
  }
  large->resize(kept);
  if (changed_.size() == 1) {
    large->insert(std::upper_bound(large->begin(), large->end(), changed_[0], is_fuller),
                  changed_[0]);
    return;
  }
  std::sort(changed_.begin(), changed_.end(), is_fuller);
  merged_.resize(bins_);
  std::merge(large->begin(), large->end(), changed_.begin(), changed_.end(), merged_.begin(),
             is_fuller);
  large->swap(merged_);
}

Differencing::Bin Differencing::chain(const Bin& first, const Bin& second) {
  OVERLORD_CHECK(next_[first.tail] == kNoAtom, "chains are joined at their ends");
  next_[first.tail] = second.head;
  return {first.load + second.load, first.head, second.tail};
}

}  // namespace overlord::plan
