// CRC-32C (Castagnoli), the checksum of journal frames. The same on every CPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace overlord::storage {

// `crc` continues an earlier call: crc32c(b, m, crc32c(a, n)) is the checksum of a then b.
uint32_t crc32c(const void* data, size_t size_bytes, uint32_t crc = 0);

}  // namespace overlord::storage
