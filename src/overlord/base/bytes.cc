#include "overlord/base/bytes.h"

namespace overlord {

void ByteWriter::fixed(uint64_t value, int width) {
  for (int i = 0; i < width; ++i) u8(static_cast<uint8_t>(value >> (8 * i)));
}

void ByteWriter::varint(uint64_t value) {
  while (value >= 0x80) {
    u8(static_cast<uint8_t>(value) | 0x80);
    value >>= 7;
  }
  u8(static_cast<uint8_t>(value));
}

void ByteWriter::zigzag(int64_t value) {
  varint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
}

void ByteWriter::text(std::string_view value) {
  varint(value.size());
  raw(value.data(), value.size());
}

void ByteWriter::digest(const Digest& value) {
  u64(value.high);
  u64(value.low);
}

uint8_t ByteReader::u8() {
  if (rest_.empty()) {
    fail();
    return 0;
  }
  const auto value = static_cast<uint8_t>(rest_.front());
  rest_.remove_prefix(1);
  return value;
}

uint64_t ByteReader::fixed(int width) {
  if (rest_.size() < static_cast<size_t>(width)) {
    fail();
    return 0;
  }
  uint64_t value = 0;
  for (int i = 0; i < width; ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(rest_[i])) << (8 * i);
  }
  rest_.remove_prefix(width);
  return value;
}

uint64_t ByteReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = u8();
    // One value has one encoding: no zeros at its end, nothing beyond 64 bits.
    if ((shift > 0 && byte == 0) || (shift == 63 && byte > 1)) break;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return failed_ ? 0 : value;
  }
  fail();
  return 0;
}

int64_t ByteReader::zigzag() {
  const uint64_t value = varint();
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

std::string_view ByteReader::text() {
  const uint64_t size = varint();
  if (size > rest_.size()) {
    fail();
    return {};
  }
  return raw(size);
}

Digest ByteReader::digest() {
  Digest value;
  value.high = u64();
  value.low = u64();
  return value;
}

std::string_view ByteReader::raw(size_t size_bytes) {
  if (size_bytes > rest_.size()) {
    fail();
    return {};
  }
  const std::string_view value = rest_.substr(0, size_bytes);
  rest_.remove_prefix(size_bytes);
  return value;
}

size_t ByteReader::count(size_t minimum_bytes) {
  const uint64_t value = varint();
  const size_t unit = minimum_bytes == 0 ? 1 : minimum_bytes;
  if (value > rest_.size() / unit) {
    fail();
    return 0;
  }
  return value;
}

Status ByteReader::status(std::string_view what, bool whole) const {
  if (failed_) return bad_data(std::string(what) + ": truncated or malformed");
  if (whole && !rest_.empty()) {
    return bad_data(std::string(what) + ": " + std::to_string(rest_.size()) + " bytes left over");
  }
  return {};
}

}  // namespace overlord
