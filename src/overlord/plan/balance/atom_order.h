// Atoms sorted by a value, largest first, ties by lower atom: what most balancers begin with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace overlord::plan {

class AtomOrder {
 public:
  // Values are >= 0.
  void sort(std::span<const int64_t> values);
  size_t size() const { return atoms_.size(); }
  std::span<const uint32_t> atoms() const { return atoms_; }
  std::span<const int64_t> values() const { return values_; }  // in this order

 private:
  struct Entry {
    uint64_t key;
    uint32_t atom;
  };
  void radix_sort(int bits);

  std::vector<Entry> entries_;
  std::vector<Entry> other_;
  std::vector<uint32_t> atoms_;
  std::vector<int64_t> values_;
};

}  // namespace overlord::plan
