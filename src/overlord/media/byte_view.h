// Reading fixed-width numbers out of foreign bytes at an offset that the caller has checked, or
// asks about with holds(); and files kept in the program as such bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace overlord::media {

template <size_t kSize>
std::string_view bytes_of(const uint8_t (&kept)[kSize]) {
  return {reinterpret_cast<const char*>(kept), kSize};
}
inline bool holds(std::string_view bytes, size_t offset, size_t count) {
  return offset <= bytes.size() && count <= bytes.size() - offset;
}
inline uint32_t byte_at(std::string_view bytes, size_t offset) {
  return static_cast<uint8_t>(bytes[offset]);
}
inline uint32_t big_u16(std::string_view bytes, size_t offset) {
  return byte_at(bytes, offset) << 8 | byte_at(bytes, offset + 1);
}
inline uint32_t big_u32(std::string_view bytes, size_t offset) {
  return big_u16(bytes, offset) << 16 | big_u16(bytes, offset + 2);
}
inline uint32_t little_u16(std::string_view bytes, size_t offset) {
  return byte_at(bytes, offset) | byte_at(bytes, offset + 1) << 8;
}
inline uint32_t little_u24(std::string_view bytes, size_t offset) {
  return little_u16(bytes, offset) | byte_at(bytes, offset + 2) << 16;
}
inline uint32_t little_u32(std::string_view bytes, size_t offset) {
  return little_u16(bytes, offset) | little_u16(bytes, offset + 2) << 16;
}

}  // namespace overlord::media
