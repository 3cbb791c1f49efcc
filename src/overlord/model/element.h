// Element: the type in which a format stores its tokens. Megatron's codes and Parquet's integer
// widths map onto it; floating types are named so that they can be refused by name.
#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace overlord::model
