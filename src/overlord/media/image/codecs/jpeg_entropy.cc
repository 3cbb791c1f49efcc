#include "overlord/media/image/codecs/jpeg_entropy.h"

#include <algorithm>

namespace overlord::media {
namespace {

constexpr uint64_t packed(int32_t first, int32_t second, uint32_t first_step, uint32_t all_steps,
                          uint32_t first_bits, uint32_t all_bits) {
  return uint64_t{all_bits} | uint64_t{first_bits} << 8 | uint64_t{first_step} << 16 |
         uint64_t{all_steps} << 24 | uint64_t{static_cast<uint16_t>(first)} << 32 |
         uint64_t{static_cast<uint16_t>(second)} << 48;
}
constexpr uint64_t kLongLook = packed(0, 0, 0, AcTable::kNoLook, 0, 0);

// How far an AC symbol moves on; 0 for those that 8-bit pictures do not have.
uint32_t step_of(uint32_t symbol) {
  const uint32_t run = symbol >> 4;
  const uint32_t size = symbol & 15;
  if (size == 0) return run == 0 ? AcTable::kEndOfBlock : run == 15 ? 16 : 0;
  return size <= AcTable::kMostSize ? run + 1 : 0;
}

}  // namespace

ScanSegment unstuff(std::string_view bytes, size_t at, uint8_t* to) {
  const auto* const from = reinterpret_cast<const uint8_t*>(bytes.data());
  uint8_t* const start = to;
  const auto length = [&] { return static_cast<size_t>(to - start); };
  while (at + 8 <= bytes.size()) {
    uint64_t word = 0;
    std::memcpy(&word, from + at, sizeof word);
    std::memcpy(to, &word, sizeof word);
    if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
    // A high bit for each byte of 0xFF; those above the first may be wrong.
    const uint64_t full = (~word - 0x0101010101010101) & word & 0x8080808080808080;
    if (full == 0) {
      at += 8;
      to += 8;
      continue;
    }
    const auto clean = static_cast<size_t>(std::countr_zero(full)) / 8;
    at += clean;
    to += clean;
    if (at + 1 >= bytes.size()) return {length(), at, 0};
    if (from[at + 1] != 0) return {length(), at, from[at + 1]};
    ++to;
    at += 2;
  }
  for (; at < bytes.size(); ++at) {
    *to = from[at];
    if (*to == 0xFF) {
      if (at + 1 >= bytes.size()) return {length(), at, 0};
      if (from[at + 1] != 0) return {length(), at, from[at + 1]};
      ++at;
    }
    ++to;
  }
  return {length(), at, 0};
}

bool is_huffman_table(std::string_view table) {
  if (table.size() <= kCodeLengths) return false;
  uint32_t code = 0;
  size_t symbols = 0;
  for (uint32_t bits = 1; bits <= kCodeLengths; ++bits) {
    const uint32_t count = static_cast<uint8_t>(table[bits - 1]);
    symbols += count;
    code += count;
    // All ones are no code.
    if (code >= (1U << bits)) return false;
    code <<= 1;
  }
  return symbols <= 256 && table.size() == kCodeLengths + symbols;
}

bool CanonicalCodes::make(std::string_view table) {
  if (made_of == table) return false;
  made_of = table;
  symbols.fill(0);
  std::copy(table.begin() + kCodeLengths, table.end(), symbols.begin());
  uint32_t code = 0;
  int32_t before = 0;
  for (uint32_t bits = 1; bits <= kCodeLengths; ++bits) {
    const uint32_t count = static_cast<uint8_t>(table[bits - 1]);
    offsets[bits] = before - static_cast<int32_t>(code);
    code += count;
    before += static_cast<int32_t>(count);
    ends[bits] = code << (16 - bits);
    code <<= 1;
  }
  return true;
}

void DcTable::make(std::string_view table) {
  if (!codes_.make(table)) return;
  for (uint32_t i = 0; i < looks_.size(); ++i) {
    const uint64_t window = uint64_t{i} << (64 - kLookBits);
    const CanonicalCodes::Found code = codes_.find(i << (16 - kLookBits));
    const uint32_t all = code.bits + code.symbol;
    looks_[i] = 0;
    if (code.bits == 0 || code.symbol > kMostSize || all > kLookBits) continue;
    const int32_t value = code.symbol == 0 ? 0 : number_at(window, code.bits, code.symbol);
    looks_[i] = all << 16 | static_cast<uint16_t>(value);
  }
}

DcTable::Difference DcTable::decode_long(uint64_t window) const {
  const CanonicalCodes::Found code = codes_.find(static_cast<uint32_t>(window >> 48));
  if (code.bits == 0 || code.symbol > kMostSize) return {};
  return {code.bits + code.symbol,
          code.symbol == 0 ? 0 : number_at(window, code.bits, code.symbol)};
}

void AcTable::make(std::string_view table) {
  if (!codes_.make(table)) return;
  for (uint32_t i = 0; i < looks_.size(); ++i) {
    const uint64_t window = uint64_t{i} << (64 - kLookBits);
    const CanonicalCodes::Found code = codes_.find(i << (16 - kLookBits));
    const uint32_t size = code.symbol & 15;
    const uint32_t step = step_of(code.symbol);
    const uint32_t all = code.bits + size;
    looks_[i] = kLongLook;
    if (code.bits == 0 || step == 0 || all > kLookBits) continue;
    const int32_t value = size == 0 ? 0 : number_at(window, code.bits, size);
    looks_[i] = packed(value, 0, step, step, all, all);
  }
  // A second symbol where all of it lies in the look.
  const auto single = looks_;
  for (uint32_t i = 0; i < looks_.size(); ++i) {
    const Look one = {single[i]};
    if (one.is_long() || one.first_step() == kEndOfBlock) continue;
    const uint32_t rest = (i << one.first_bits()) & ((1U << kLookBits) - 1);
    const Look two = {single[rest]};
    const uint32_t all = one.first_bits() + two.first_bits();
    if (two.is_long() || all > kLookBits) continue;
    looks_[i] = packed(one.first(), two.first(), one.first_step(),
                       one.first_step() + two.first_step(), one.first_bits(), all);
  }
}

AcTable::Step AcTable::decode_long(uint64_t window) const {
  const CanonicalCodes::Found code = codes_.find(static_cast<uint32_t>(window >> 48));
  const uint32_t size = code.symbol & 15;
  const uint32_t step = step_of(code.symbol);
  if (code.bits == 0 || step == 0) return {};
  const int32_t value = size == 0 ? 0 : number_at(window, code.bits, size);
  return {code.bits + size, step, value};
}

}  // namespace overlord::media
