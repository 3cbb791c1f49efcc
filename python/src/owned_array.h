// A vector as a NumPy array that owns it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

namespace overlord::python {

template <typename T>
nanobind::object owned_array(std::vector<T> values) {
  namespace nb = nanobind;
  auto* held = new std::vector<T>(std::move(values));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  const size_t shape[1] = {held->size()};
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(held->data(), 1, shape, owner));
}

}  // namespace overlord::python
