// The one list of a struct's fields. A struct that travels, is merged or shown has, as its last
// line,
//
//   OVERLORD_FIELDS(name, size)
//
// and whoever walks the list knows each field and its name: codecs (protocol/fields/field_codec.h),
// sums of counters (counts.h), dicts of Python (python/src/fields_dict.h). So a new field is
// written here, beside its declaration, and nowhere else. Whoever walks a list that lacks a field
// is refused by the compiler. The order of the list is the format of what travels: a codec that
// carries the struct raises its format with it.
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

// visit_fields(visit) is visit(field, field, ...); all_fields compiles where none is missing.
#define OVERLORD_FIELDS(...)                                    \
  static constexpr std::string_view kFieldNames = #__VA_ARGS__; \
  template <typename Visit>                                     \
  constexpr decltype(auto) visit_fields(Visit&& visit) {        \
    return visit(__VA_ARGS__);                                  \
  }                                                             \
  template <typename Visit>                                     \
  constexpr decltype(auto) visit_fields(Visit&& visit) const {  \
    return visit(__VA_ARGS__);                                  \
  }                                                             \
  template <typename Self>                                      \
  static constexpr void all_fields(Self& self) {                \
    [[maybe_unused]] auto& [__VA_ARGS__] = self;                \
  }

namespace overlord {

// A struct with OVERLORD_FIELDS.
template <typename T>
concept Listed = requires { std::remove_const_t<T>::kFieldNames; };

// Takes the first of "a, b, c" off.
constexpr std::string_view next_field_name(std::string_view* names) {
  const size_t end = names->find(',');
  const std::string_view name = names->substr(0, end);
  *names = end == std::string_view::npos ? std::string_view() : names->substr(end + 2);
  return name;
}

// each(name, field) for each of them, in the list's order.
template <Listed T, typename Each>
constexpr void for_each_field(T& value, Each&& each) {
  T::all_fields(value);
  std::string_view names = T::kFieldNames;
  value.visit_fields([&](auto&... fields) { (each(next_field_name(&names), fields), ...); });
}

// each(name, field of one, field of the other), of two structs with the same list.
template <Listed T, Listed U, typename Each>
constexpr void for_both_fields(T& one, U& other, Each&& each) {
  static_assert(T::kFieldNames == U::kFieldNames);
  T::all_fields(one);
  std::string_view names = T::kFieldNames;
  one.visit_fields([&](auto&... ones) {
    other.visit_fields(
        [&](auto&... others) { (each(next_field_name(&names), ones, others), ...); });
  });
}

}  // namespace overlord
