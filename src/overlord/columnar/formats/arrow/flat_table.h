// FlatTable: a table of a FlatBuffer, read with every offset checked. For the few fields of Arrow's
// messages that its library reads and does not show; anything that does not fit is "not there" or
// nullopt, never a read outside of the bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace overlord::columnar {

// Elements of a fixed size, back to back.
struct FlatVector {
  std::string_view bytes;
  size_t count = 0;

  int64_t i64(size_t offset) const {
    int64_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
    return value;
  }
};

class FlatTable {
 public:
  // The table that a whole buffer begins with.
  static std::optional<FlatTable> root(std::string_view bytes);

  // Fields count from 0 in the order of the format's schema; one that is absent has its default.
  template <typename T>
  std::optional<T> scalar(uint32_t field, T absent) const {
    const std::optional<size_t> at = find(field);
    if (!at) return std::nullopt;
    if (*at == 0) return absent;
    return load<T>(bytes_, *at);
  }
  // nullopt: broken, or absent.
  std::optional<FlatTable> table(uint32_t field) const;
  // Absent is empty.
  std::optional<FlatVector> vector(uint32_t field, size_t element_bytes) const;
  std::optional<bool> has(uint32_t field) const;
  size_t offset() const { return at_; }  // of the table, in the whole buffer

 private:
  FlatTable(std::string_view bytes, size_t at, size_t fields, uint32_t field_bytes)
      : bytes_(bytes), at_(at), fields_(fields), field_bytes_(field_bytes) {}

  template <typename T>
  static std::optional<T> load(std::string_view bytes, size_t at) {
    if (at > bytes.size() || bytes.size() - at < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    return value;
  }
  static std::optional<FlatTable> at(std::string_view bytes, size_t at);
  std::optional<size_t> find(uint32_t field) const;    // where it is; 0: absent
  std::optional<size_t> follow(uint32_t field) const;  // where the offset in it leads; 0: absent

  std::string_view bytes_;
  size_t at_;             // of the table
  size_t fields_;         // of the list that says where its fields are
  uint32_t field_bytes_;  // of that list
};

}  // namespace overlord::columnar
