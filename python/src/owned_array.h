// A vector as a NumPy array that owns it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

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

}  // namespace overlord::python
