// Hashing that is the same on every CPU: XXH3 (64 and 128 bits) behind two small types.
// Digest is the 128-bit value used for content, plan, stream, config and manifest hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace overlord {

struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;

  friend bool operator==(const Digest&, const Digest&) = default;
  std::string hex() const;  // 32 lower-case hex digits
  static bool parse(std::string_view hex, Digest* out);
};

uint64_t hash64(const void* data, size_t size_bytes, uint64_t seed = 0);
Digest digest_of(const void* data, size_t size_bytes);
inline Digest digest_of(std::string_view bytes) { return digest_of(bytes.data(), bytes.size()); }
// Order-sensitive combination: chain(a, b) != chain(b, a).
Digest chain(const Digest& previous, const Digest& next);

}  // namespace overlord
