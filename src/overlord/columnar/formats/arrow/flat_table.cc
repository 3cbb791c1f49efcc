#include "overlord/columnar/formats/arrow/flat_table.h"

namespace overlord::columnar {
namespace {

constexpr uint32_t kListHeadBytes = 4;  // of a vtable: its size and the table's
constexpr uint32_t kListEntryBytes = 2;

}  // namespace

std::optional<FlatTable> FlatTable::at(std::string_view bytes, size_t at) {
  const auto back = load<int32_t>(bytes, at);
  if (!back) return std::nullopt;
  const int64_t list = static_cast<int64_t>(at) - *back;
  if (list < 0) return std::nullopt;
  const auto size = load<uint16_t>(bytes, static_cast<size_t>(list));
  if (!size || *size < kListHeadBytes || *size > bytes.size() - static_cast<size_t>(list)) {
    return std::nullopt;
  }
  return FlatTable(bytes, at, static_cast<size_t>(list), *size);
}

std::optional<FlatTable> FlatTable::root(std::string_view bytes) {
  const auto offset = load<uint32_t>(bytes, 0);
  if (!offset) return std::nullopt;
  return at(bytes, *offset);
}

std::optional<size_t> FlatTable::find(uint32_t field) const {
  const uint32_t entry = kListHeadBytes + kListEntryBytes * field;
  if (entry + kListEntryBytes > field_bytes_) return 0;
  const auto offset = load<uint16_t>(bytes_, fields_ + entry);
  if (!offset) return std::nullopt;
  return *offset == 0 ? 0 : at_ + *offset;
}

std::optional<size_t> FlatTable::follow(uint32_t field) const {
  const std::optional<size_t> place = find(field);
  if (!place || *place == 0) return place;
  const auto offset = load<uint32_t>(bytes_, *place);
  if (!offset || *offset == 0 || *offset > bytes_.size() - *place) return std::nullopt;
  return *place + *offset;
}

std::optional<FlatTable> FlatTable::table(uint32_t field) const {
  const std::optional<size_t> place = follow(field);
  if (!place || *place == 0) return std::nullopt;
  return at(bytes_, *place);
}

std::optional<FlatVector> FlatTable::vector(uint32_t field, size_t element_bytes) const {
  const std::optional<size_t> place = follow(field);
  if (!place) return std::nullopt;
  if (*place == 0) return FlatVector();
  const auto count = load<uint32_t>(bytes_, *place);
  if (!count) return std::nullopt;
  const size_t begin = *place + sizeof(uint32_t);
  if (*count > (bytes_.size() - begin) / element_bytes) return std::nullopt;
  return FlatVector{bytes_.substr(begin, *count * element_bytes), *count};
}

std::optional<bool> FlatTable::has(uint32_t field) const {
  const std::optional<size_t> place = find(field);
  if (!place) return std::nullopt;
  return *place != 0;
}

}  // namespace overlord::columnar
