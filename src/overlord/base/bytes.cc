#include "overlord/base/bytes.h"

namespace overlord {
namespace {

constexpr size_t kVarintBytes = 10;  // of 64 bits

}  // namespace

void ByteWriter::fixed(uint64_t value, int width) {
  char bytes[sizeof(value)];
  for (int i = 0; i < width; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  bytes_.append(bytes, static_cast<size_t>(width));
}

// Put together first: states and plans are thousands of these, and a string grown byte by byte
// checks its room for each.
void ByteWriter::varint(uint64_t value) {
  char bytes[kVarintBytes];
  size_t size = 0;
  while (value >= 0x80) {
    bytes[size++] = static_cast<char>(static_cast<uint8_t>(value) | 0x80);
    value >>= 7;
  }
  bytes[size++] = static_cast<char>(value);
  bytes_.append(bytes, size);
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
  const size_t most = rest_.size() < kVarintBytes ? rest_.size() : kVarintBytes;
  uint64_t value = 0;
  for (size_t i = 0; i < most; ++i) {
    const auto byte = static_cast<uint8_t>(rest_[i]);
    // One value has one encoding: no zeros at its end, nothing beyond 64 bits.
    if ((i > 0 && byte == 0) || (i == kVarintBytes - 1 && byte > 1)) break;
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) != 0) continue;
    rest_.remove_prefix(i + 1);
    return value;
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
