// Compiled at -O3 (CMakeLists.txt): these loops are most of the bytes a loader ever touches.
#include "overlord/model/widen.h"

#include <cstring>
#include <type_traits>

#include "overlord/base/check.h"

namespace overlord::model {
namespace {

template <typename From, typename To>
void copy_as(const void* data, uint32_t first, uint32_t count, To* __restrict out) {
  const From* __restrict in = static_cast<const From*>(data) + first;
  if constexpr (sizeof(From) == sizeof(To)) {
    if (count > 0) std::memcpy(out, in, count * sizeof(To));
  } else {
    for (uint32_t i = 0; i < count; ++i) out[i] = static_cast<To>(in[i]);
  }
}

template <typename To>
void widen_to(const model::TokenSpan& span, uint32_t first, uint32_t count, To* out) {
  using model::Element;
  switch (span.element) {
    case Element::kU8:
      return copy_as<uint8_t>(span.data, first, count, out);
    case Element::kI8:
      return copy_as<int8_t>(span.data, first, count, out);
    case Element::kU16:
      return copy_as<uint16_t>(span.data, first, count, out);
    case Element::kI16:
      return copy_as<int16_t>(span.data, first, count, out);
    case Element::kU32:
      return copy_as<uint32_t>(span.data, first, count, out);
    case Element::kI32:
      return copy_as<int32_t>(span.data, first, count, out);
    case Element::kU64:
      return copy_as<uint64_t>(span.data, first, count, out);
    case Element::kI64:
      return copy_as<int64_t>(span.data, first, count, out);
    case Element::kF32:
    case Element::kF64:
      break;
  }
  OVERLORD_CHECK(false, "floating tokens are refused when the source is opened");
}

}  // namespace

void widen(const model::TokenSpan& span, uint32_t first, uint32_t count, uint16_t* out) {
  widen_to(span, first, count, out);
}
void widen(const model::TokenSpan& span, uint32_t first, uint32_t count, int32_t* out) {
  widen_to(span, first, count, out);
}
void widen(const model::TokenSpan& span, uint32_t first, uint32_t count, int64_t* out) {
  widen_to(span, first, count, out);
}

void number(int32_t* out, uint32_t count, uint32_t first) {
  for (uint32_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>(first + i);
}

}  // namespace overlord::model
