#include "overlord/base/hash.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace overlord {
namespace {

void store_little_endian(uint64_t value, unsigned char* out) {
  for (int i = 0; i < 8; ++i) out[i] = static_cast<unsigned char>(value >> (8 * i));
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string Digest::hex() const {
  static const char* digits = "0123456789abcdef";
  std::string out(32, '0');
  for (int i = 0; i < 16; ++i) {
    out[i] = digits[(high >> (60 - 4 * i)) & 15];
    out[16 + i] = digits[(low >> (60 - 4 * i)) & 15];
  }
  return out;
}

bool Digest::parse(std::string_view hex, Digest* out) {
  if (hex.size() != 32) return false;
  Digest digest;
  for (size_t i = 0; i < 32; ++i) {
    const int digit = hex_digit(hex[i]);
    if (digit < 0) return false;
    uint64_t& half = i < 16 ? digest.high : digest.low;
    half = (half << 4) | static_cast<uint64_t>(digit);
  }
  *out = digest;
  return true;
}

uint64_t hash64(const void* data, size_t size_bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(data, size_bytes, seed);
}

Digest digest_of(const void* data, size_t size_bytes) {
  const XXH128_hash_t hash = XXH3_128bits(data, size_bytes);
  return {hash.high64, hash.low64};
}

Digest chain(const Digest& previous, const Digest& next) {
  unsigned char bytes[32];
  store_little_endian(previous.high, bytes);
  store_little_endian(previous.low, bytes + 8);
  store_little_endian(next.high, bytes + 16);
  store_little_endian(next.low, bytes + 24);
  return digest_of(bytes, sizeof bytes);
}

}  // namespace overlord
