#include "overlord/storage/crc32c.h"

#include <array>

namespace overlord::storage {
namespace {

using Table = std::array<std::array<uint32_t, 256>, 8>;

constexpr Table make_table() {
  Table table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
    table[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (size_t i = 1; i < 8; ++i) {
      table[i][byte] = (table[i - 1][byte] >> 8) ^ table[0][table[i - 1][byte] & 0xff];
    }
  }
  return table;
}

constexpr Table kTable = make_table();

}  // namespace

uint32_t crc32c(const void* data, size_t size_bytes, uint32_t crc) {
  const auto* p = static_cast<const unsigned char*>(data);
  crc = ~crc;
  // Eight bytes a turn: records of megabytes must not hold up the commit thread.
  for (; size_bytes >= 8; size_bytes -= 8, p += 8) {
    crc = kTable[7][p[0] ^ (crc & 0xff)] ^ kTable[6][p[1] ^ ((crc >> 8) & 0xff)] ^
          kTable[5][p[2] ^ ((crc >> 16) & 0xff)] ^ kTable[4][p[3] ^ (crc >> 24)] ^ kTable[3][p[4]] ^
          kTable[2][p[5]] ^ kTable[1][p[6]] ^ kTable[0][p[7]];
  }
  for (; size_bytes > 0; --size_bytes, ++p) crc = (crc >> 8) ^ kTable[0][(crc ^ *p) & 0xff];
  return ~crc;
}

}  // namespace overlord::storage
