// What a digest is made of: values in fixed widths, as the first version wrote them, and fields
// that came later by name, so that whoever does not use them keeps his digest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/base/fields.h"
#include "overlord/base/hash.h"
#include "overlord/model/cost_model.h"

namespace overlord::protocol {

class DigestWriter {
 public:
  template <typename... Ts>
  void operator()(const Ts&... values) {
    (write(values), ...);
  }
  // The fields of a struct after the first `by_hand`, which the caller writes himself or leaves
  // out: each with its name, where it is not what it is by default.
  template <Listed T>
  void later_fields(const T& value, size_t by_hand) {
    const T usual{};
    size_t index = 0;
    for_both_fields(value, usual, [&](std::string_view name, const auto& own, const auto& other) {
      if (index++ < by_hand) return;
      DigestWriter ours, theirs;
      ours(own);
      theirs(other);
      if (ours.bytes() == theirs.bytes()) return;
      bytes_.text(name);
      bytes_.raw(ours.bytes().data(), ours.bytes().size());
    });
  }
  void count(size_t value) { bytes_.varint(value); }
  Digest digest() const { return digest_of(bytes_.bytes()); }
  const std::string& bytes() const { return bytes_.bytes(); }

 private:
  template <typename T>
  void write(const T& value) {
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, uint8_t> || std::is_enum_v<T>) {
      bytes_.u8(static_cast<uint8_t>(value));
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      bytes_.u32(value);
    } else if constexpr (std::is_unsigned_v<T>) {
      bytes_.u64(value);
    } else if constexpr (std::is_signed_v<T>) {
      bytes_.zigzag(value);
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
      bytes_.text(value);
    } else if constexpr (std::is_same_v<T, model::CostModel>) {
      model::write_cost_model(value, &bytes_);
    } else {
      value.visit_fields(*this);
    }
  }
  template <typename T>
  void write(const std::optional<T>& value) {
    bytes_.u8(value.has_value() ? 1 : 0);
    write(value.value_or(T{}));
  }
  template <typename T>
  void write(const std::vector<T>& values) {
    bytes_.varint(values.size());
    for (const T& value : values) write(value);
  }

  ByteWriter bytes_;
};

}  // namespace overlord::protocol
