// Byte codec for everything that outlives or leaves a process: little-endian, varints, no padding.
// ByteReader never reads past its end: a short or malformed input is a kBadData Status, not a
// crash.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "overlord/base/hash.h"
#include "overlord/base/status.h"

namespace overlord {

class ByteWriter {
 public:
  void u8(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void u32(uint32_t value) { fixed(value, 4); }
  void u64(uint64_t value) { fixed(value, 8); }
  void varint(uint64_t value);
  void zigzag(int64_t value);         // signed varint
  void text(std::string_view value);  // length, then bytes
  void digest(const Digest& value);
  void raw(const void* data, size_t size_bytes) {
    bytes_.append(static_cast<const char*>(data), size_bytes);
  }

  size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  void fixed(uint64_t value, int width);
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  // Each sets the reader to failed and returns a zero value once the input is short or malformed:
  // callers decode a whole record and then ask status() once.
  uint8_t u8();
  uint32_t u32() { return static_cast<uint32_t>(fixed(4)); }
  uint64_t u64() { return fixed(8); }
  uint64_t varint();
  int64_t zigzag();
  std::string_view text();
  Digest digest();
  std::string_view raw(size_t size_bytes);
  // A count of things that take at least `minimum_bytes` each: fails when the rest cannot hold
  // them, so a lying count never causes an allocation.
  size_t count(size_t minimum_bytes);

  bool failed() const { return failed_; }
  bool at_end() const { return rest_.empty(); }
  size_t remaining() const { return rest_.size(); }
  // ok when every read so far fitted and (if `whole`) nothing is left over.
  Status status(std::string_view what, bool whole = true) const;

 private:
  uint64_t fixed(int width);
  void fail() {
    failed_ = true;
    rest_ = {};
  }
  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace overlord
