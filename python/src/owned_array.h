// Vectors as NumPy arrays that own them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace overlord::python {

// With `shape`, as elements of another type where the vector holds their bytes.
template <typename Element, typename T>
nanobind::object owned_array(std::vector<T> values, const std::vector<size_t>& shape) {
  namespace nb = nanobind;
  auto* held = new std::vector<T>(std::move(values));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, Element>(reinterpret_cast<Element*>(held->data()),
                                                  shape.size(), shape.data(), owner));
}

template <typename T>
nanobind::object owned_array(std::vector<T> values) {
  const std::vector<size_t> shape = {values.size()};
  return owned_array<T>(std::move(values), shape);
}

// A table of whole numbers: rows are added, then it is a NumPy array of int64.
class OwnedTable {
 public:
  explicit OwnedTable(size_t columns, size_t rows = 0) : columns_(columns) {
    values_.reserve(columns * rows);
  }
  template <typename... T>
  void add(T... values) {
    (values_.push_back(static_cast<int64_t>(values)), ...);
  }
  nanobind::object array() && {
    const std::vector<size_t> shape = {values_.size() / columns_, columns_};
    return owned_array<int64_t>(std::move(values_), shape);
  }

 private:
  size_t columns_;
  std::vector<int64_t> values_;
};

}  // namespace overlord::python
