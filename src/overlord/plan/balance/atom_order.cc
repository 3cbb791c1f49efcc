#include "overlord/plan/balance/atom_order.h"

#include <algorithm>
#include <array>
#include <bit>

#include "overlord/base/check.h"

namespace overlord::plan {
namespace {

constexpr int kDigitBits = 11;  // 2,048 counters stay in the first cache
constexpr size_t kSortedPlainly = 512;

}  // namespace

// Keys are "largest minus value", so that ascending keys are descending values, and their high bits
// are zero, which saves passes. The passes are stable: ties keep the order of atoms.
void AtomOrder::sort(std::span<const int64_t> values) {
  const size_t count = values.size();
  const int64_t largest = count == 0 ? 0 : *std::max_element(values.begin(), values.end());
  entries_.resize(count);
  uint64_t used_bits = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto key = static_cast<uint64_t>(largest - values[i]);
    OVERLORD_CHECK(values[i] >= 0, "costs are not negative");
    entries_[i] = {key, static_cast<uint32_t>(i)};
    used_bits |= key;
  }
  if (count < kSortedPlainly) {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return a.key != b.key ? a.key < b.key : a.atom < b.atom;
    });
  } else {
    radix_sort(64 - std::countl_zero(used_bits));
  }
  atoms_.resize(count);
  values_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    atoms_[i] = entries_[i].atom;
    OVERLORD_CHECK(i == 0 || entries_[i - 1].key <= entries_[i].key, "largest first");
    values_[i] = largest - static_cast<int64_t>(entries_[i].key);
  }
}

void AtomOrder::radix_sort(int bits) {
  other_.resize(entries_.size());
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    std::array<uint32_t, 1 << kDigitBits> ends{};
    const auto digit = [shift](const Entry& entry) {
      return (entry.key >> shift) & ((1u << kDigitBits) - 1);
    };
    for (const Entry& entry : entries_) ++ends[digit(entry)];
    uint32_t sum = 0;
    for (uint32_t& end : ends) {
      const uint32_t here = end;
      end = sum;
      sum += here;
    }
    OVERLORD_CHECK(sum == entries_.size(), "every atom has a digit");
    for (const Entry& entry : entries_) other_[ends[digit(entry)]++] = entry;
    entries_.swap(other_);
  }
}

}  // namespace overlord::plan
