// Huffman decoding of sequential JPEG scans, made for speed: the zero bytes that JPEG stuffs behind
// 0xFF are taken out first, so that the bit reader never looks for them, and one look into a table
// gives up to two coefficients with their signs. Whatever does not fit a look goes through the
// canonical code. Nothing here reports an error: what is odd is left to libjpeg.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace overlord::media {

// Bytes of entropy-coded data without their stuffing, up to the marker that ends them.
struct ScanSegment {
  size_t length = 0;     // bytes that were written
  size_t marker_at = 0;  // where in the input the marker starts
  uint32_t marker = 0;   // its second byte; 0 where the input ended first
};

// From `at` on; `to` has room for all that is left of `bytes` and kStorePad bytes more.
ScanSegment unstuff(std::string_view bytes, size_t at, uint8_t* to);
constexpr size_t kStorePad = 8;

// A Huffman table as a file has it: 16 counts of codes by length, then the symbols. Made only of
// what is_huffman_table() accepts.
constexpr size_t kCodeLengths = 16;
bool is_huffman_table(std::string_view table);

// Codes of any length, by comparison with the last code of each.
struct CanonicalCodes {
  std::array<uint32_t, kCodeLengths + 1> ends = {};  // first 16 bits that are behind the length
  std::array<int32_t, kCodeLengths + 1> offsets = {};
  std::array<uint8_t, 256> symbols = {};
  std::string made_of;

  // False where it was made of the same table last time: nothing has changed.
  bool make(std::string_view table);

  struct Found {
    uint32_t bits = 0;  // 0: no such code
    uint32_t symbol = 0;
  };
  Found find(uint32_t next_16_bits) const {
    for (uint32_t bits = 1; bits <= kCodeLengths; ++bits) {
      if (next_16_bits < ends[bits]) {
        const auto at = static_cast<int32_t>(next_16_bits >> (16 - bits)) + offsets[bits];
        return {bits, symbols[static_cast<size_t>(at) & 255]};
      }
    }
    return {};
  }
};

// The bits of a segment, from the highest of `window` down. The segment is followed by zeros.
struct BitReader {
  uint64_t window = 0;
  // The lowest six bits count the bits of the window that were taken note of (those below are right
  // as well); what is above may be anything, which saves a mask on the way from look to look.
  uint64_t count = 0;
  const uint8_t* next = nullptr;

  // At least 56 bits after this.
  void refill() {
    uint64_t word = 0;
    std::memcpy(&word, next, sizeof word);
    if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
    window |= word >> (count & 63);
    next += (~count >> 3) & 7;
    count |= 56;
  }
  // By the lowest six bits of `bits`.
  void drop(uint64_t bits) {
    window <<= bits & 63;
    count -= bits;
  }
};

// The number of `size` bits (1 to 16) behind `skip` others, of JPEG's kind: a first bit of 0 says
// negative.
inline int32_t number_at(uint64_t window, uint32_t skip, uint32_t size) {
  const auto raw = static_cast<int32_t>((window << skip) >> (64 - size));
  return raw < (1 << (size - 1)) ? raw - (1 << size) + 1 : raw;
}

// DC: a look gives the difference.
class DcTable {
 public:
  static constexpr uint32_t kLookBits = 10;
  static constexpr uint32_t kMostSize = 11;  // of differences between 8-bit pictures' averages

  // Does nothing where it was made of the same table last time.
  void make(std::string_view table);

  // The next difference. Numbers come by value, so that a reader can live in registers.
  struct Difference {
    uint32_t bits = 0;  // 0: there is no such code
    int32_t value = 0;
  };
  Difference decode(uint64_t window) const {
    const uint32_t entry = looks_[window >> (64 - kLookBits)];
    if (const uint32_t taken = entry >> 16; taken != 0) [[likely]] {
      return {taken, static_cast<int16_t>(entry)};
    }
    return decode_long(window);
  }

 private:
  Difference decode_long(uint64_t window) const;

  CanonicalCodes codes_;
  std::array<uint32_t, 1U << kLookBits> looks_ = {};  // bits << 16 | difference
};

// AC: a look gives one or two symbols; an end of block moves on by kEndOfBlock. Looks that give
// nothing move on by kNoLook, so that one comparison finds all that ends a block or is rare.
class AcTable {
 public:
  static constexpr uint32_t kLookBits = 11;
  static constexpr uint32_t kMostSize = 10;  // of coefficients of 8-bit pictures
  static constexpr uint32_t kEndOfBlock = 128;
  static constexpr uint32_t kNoLook = 255;

  struct Look {
    uint64_t entry;

    bool is_long() const { return all_steps() == kNoLook; }
    // The lowest six bits, as BitReader::drop() takes them: nothing to wait for in between.
    uint64_t all_bits() const { return entry; }
    uint32_t first_bits() const { return static_cast<uint8_t>(entry >> 8); }
    uint32_t first_step() const { return static_cast<uint8_t>(entry >> 16); }
    uint32_t all_steps() const { return static_cast<uint8_t>(entry >> 24); }
    int32_t first() const { return static_cast<int16_t>(entry >> 32); }
    int32_t second() const { return static_cast<int16_t>(entry >> 48); }
  };

  void make(std::string_view table);

  Look look(uint64_t window) const { return {looks_[window >> (64 - kLookBits)]}; }

  // One symbol of any length.
  struct Step {
    uint32_t bits = 0;  // 0: there is no such code
    uint32_t step = 0;
    int32_t value = 0;
  };
  Step decode_long(uint64_t window) const;

 private:
  CanonicalCodes codes_;
  std::array<uint64_t, 1U << kLookBits> looks_ = {};
};

}  // namespace overlord::media
