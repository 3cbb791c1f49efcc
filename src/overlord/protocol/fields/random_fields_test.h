// A codec that fills: walks a struct's field list (field_codec.h) and puts a random value other
// than zero into each of them, so that a field that does not survive a round trip is noticed. And a
// tally: how many fields a list hands on, against how many the struct has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "overlord/base/rng.h"
#include "overlord/protocol/fields/field_codec.h"

namespace overlord::protocol {

class RandomFields {
 public:
  explicit RandomFields(uint64_t seed) : seed_(seed) {}

  template <typename... Ts>
  void operator()(Ts&... fields) {
    (fill(fields), ...);
  }
  void refuse() {}  // a list may find a value senseless; the old one stays
  uint64_t below(uint64_t limit) { return uniform_below(seed_, draws_++, 0, limit); }
  // Small and huge numbers alike; never 0.
  uint64_t number() { return (random_u64(seed_, draws_++) | uint64_t{1} << 63) >> below(64); }
  std::string text() {
    std::string out(1 + below(12), ' ');
    for (char& c : out) c = static_cast<char>(below(256));
    return out;
  }
  template <typename T>
  T make() {
    T value{};
    fill(value);
    return value;
  }

 private:
  template <Scalar T>
  void fill(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      value = true;
    } else if constexpr (std::is_enum_v<T>) {
      do {
        value = static_cast<T>(1 + below(15));
      } while (!is_known(value));
    } else {
      do {
        value = static_cast<T>(number());
        if (std::is_signed_v<T> && below(2) == 0) value = static_cast<T>(~value);
      } while (value == 0);
    }
  }
  void fill(std::string& value) { value = text(); }
  void fill(Digest& value) { value = {number(), number()}; }
  template <typename T>
  void fill(std::optional<T>& value) {
    fill(value.emplace());
  }
  template <typename T>
  void fill(std::shared_ptr<const T>& value) {
    auto made = std::make_shared<T>();
    fill(*made);
    value = std::move(made);
  }
  template <typename T>
  void fill(std::vector<T>& values) {
    values.clear();
    const uint64_t count = 1 + below(3);
    for (uint64_t i = 0; i < count; ++i) fill(values.emplace_back());
  }
  template <typename T>
    requires(!Scalar<T>)
  void fill(T& value) {
    if constexpr (kIsRow<T>) {
      uint64_t words[sizeof(T) / 8 + 1];
      for (uint64_t& word : words) word = number();
      std::memcpy(&value, words, sizeof(T));
    } else {
      Fields<T>::list(*this, value);
    }
  }

  uint64_t seed_;
  uint64_t draws_ = 0;
};

struct FieldTally {
  size_t fields = 0;
  template <typename... Ts>
  void operator()(Ts&...) {
    fields += sizeof...(Ts);
  }
};

// Fields that a list hands on.
template <typename T>
size_t listed_fields() {
  T value{};
  FieldTally tally;
  Fields<T>::list(tally, value);
  return tally.fields;
}

struct AnyField {
  template <typename T>
  operator T() const;  // never called
};

// Fields that a struct has: as many as can be given in braces.
template <typename T, typename... Given>
constexpr size_t field_count() {
  if constexpr (requires { T{Given{}..., AnyField{}}; }) {
    return field_count<T, Given..., AnyField>();
  } else {
    return sizeof...(Given);
  }
}

}  // namespace overlord::protocol
