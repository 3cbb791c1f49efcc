// Counters that roles count in and others read. A struct of them is declared once, with fields of
// Cell<uint64_t>: std::atomic in the probe of a role, plain numbers in a status.
#pragma once

#include <atomic>
#include <string_view>
#include <type_traits>

#include "overlord/base/fields.h"

namespace overlord {

template <typename T>
using Plain = T;

// The numbers as they are now, each for itself.
template <template <template <typename> typename> typename Counts>
Counts<Plain> read_counts(const Counts<std::atomic>& from) {
  Counts<Plain> out;
  for_both_fields(from, out, [](std::string_view, const auto& cell, auto& number) {
    if constexpr (Listed<std::remove_reference_t<decltype(number)>>) {
      number = read_counts(cell);
    } else {
      number = cell.load();
    }
  });
  return out;
}

// Adds all numbers of one to those of another; what is no number stays.
template <Listed T>
void add_counts(const T& part, T* whole) {
  for_both_fields(part, *whole, [](std::string_view, const auto& from, auto& to) {
    if constexpr (Listed<std::remove_reference_t<decltype(to)>>) {
      add_counts(from, &to);
    } else if constexpr (std::is_arithmetic_v<std::remove_reference_t<decltype(to)>>) {
      to += from;
    }
  });
}

}  // namespace overlord
