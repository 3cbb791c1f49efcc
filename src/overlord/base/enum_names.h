// Names of enumerators, as the compiler knows them: kBestFit is "best_fit" in configs, dicts and
// messages. For enumerations that count without a gap, from 0 or a little more. A new enumerator
// has a name, and is known to readers of foreign bytes, by being declared.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "overlord/base/status.h"

namespace overlord {

// "ns::Enum::kBestFit", or "(ns::Enum)7" where there is no such enumerator: GCC and Clang agree.
template <auto kValue>
constexpr std::string_view enumerator_text() {
  const std::string_view text = __PRETTY_FUNCTION__;
  const size_t begin = text.find("kValue = ") + 9;
  return text.substr(begin, text.find_first_of(";]", begin) - begin);
}

// The first number from `kFrom` on that has an enumerator, or has none.
template <typename Enum, bool kHasOne, size_t kFrom>
constexpr size_t next_number() {
  if constexpr ((enumerator_text<static_cast<Enum>(kFrom)>().front() != '(') == kHasOne) {
    return kFrom;
  } else {
    return next_number<Enum, kHasOne, kFrom + 1>();
  }
}

template <typename Enum>
inline constexpr size_t kFirstEnumerator = next_number<Enum, true, 0>();
template <typename Enum>
inline constexpr size_t kEnumerators =
    next_number<Enum, false, kFirstEnumerator<Enum>>() - kFirstEnumerator<Enum>;

template <typename Enum>
constexpr bool is_known(Enum value) {
  return static_cast<size_t>(value) - kFirstEnumerator<Enum> < kEnumerators<Enum>;
}

// "overlord::Enum::kBestFit" -> "best_fit"
std::string snake_name(std::string_view enumerator);

template <typename Enum>
std::string enum_name(Enum value) {
  return []<size_t... kIndex>(size_t at, std::index_sequence<kIndex...>) {
    constexpr std::array kTexts = {
        enumerator_text<static_cast<Enum>(kFirstEnumerator<Enum> + kIndex)>()...};
    return snake_name(kTexts[at]);
  }(static_cast<size_t>(value) - kFirstEnumerator<Enum>,
         std::make_index_sequence<kEnumerators<Enum>>());
}

// `what` begins the message.
template <typename Enum>
Result<Enum> enum_of(std::string_view name, std::string_view what) {
  std::string known;
  for (size_t i = 0; i < kEnumerators<Enum>; ++i) {
    const auto value = static_cast<Enum>(kFirstEnumerator<Enum> + i);
    const std::string one = enum_name(value);
    if (one == name) return value;
    known += (i == 0 ? "" : ", ") + one;
  }
  return invalid_argument(std::string(what) + ": one of " + known + "; got '" + std::string(name) +
                          "'");
}

}  // namespace overlord
