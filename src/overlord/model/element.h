// Element: the type in which a format stores its tokens. Megatron's codes and Parquet's integer
// widths map onto it; floating types are named so that they can be refused by name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace overlord::model {

enum class Element : uint8_t { kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF32, kF64 };

constexpr size_t element_bytes(Element element) {
  switch (element) {
    case Element::kU8:
    case Element::kI8:
      return 1;
    case Element::kU16:
    case Element::kI16:
      return 2;
    case Element::kU32:
    case Element::kI32:
    case Element::kF32:
      return 4;
    case Element::kU64:
    case Element::kI64:
    case Element::kF64:
      return 8;
  }
  return 0;
}

// As NumPy and configs name them, in the order of the enumerators.
inline constexpr std::array<std::string_view, 10> kElementNames = {
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"};
inline constexpr size_t kIntegerElements = 8;  // the first of them

constexpr std::string_view element_name(Element element) {
  return kElementNames[static_cast<size_t>(element)];
}

constexpr std::optional<Element> element_named(std::string_view name) {
  for (size_t i = 0; i < kElementNames.size(); ++i) {
    if (kElementNames[i] == name) return static_cast<Element>(i);
  }
  return std::nullopt;
}

// The types that tokens may have, for messages.
inline std::string integer_names() {
  std::string names;
  for (size_t i = 0; i < kIntegerElements; ++i) {
    names += (i > 0 ? ", " : "") + std::string(kElementNames[i]);
  }
  return names;
}

}  // namespace overlord::model
