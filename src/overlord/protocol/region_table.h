// RegionTable: memory that two processes share, as the carrier between them knows it. What lies in
// a region travels as a MemoryRef; everything else travels inside its message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "overlord/base/status.h"

namespace overlord::protocol {

// Bytes [offset, offset + size) of a region. What `region` means, generations of recycled memory
// included, is between the tables of both sides.
struct MemoryRef {
  uint64_t region = 0;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;

  friend bool operator==(const MemoryRef&, const MemoryRef&) = default;
};

struct ResolvedMemory {
  const void* data = nullptr;
  std::shared_ptr<const void> holder;  // keeps the bytes in place and unchanged
};

class RegionTable {
 public:
  virtual ~RegionTable() = default;
  // Where the other side finds these bytes; nothing: they must travel.
  virtual std::optional<MemoryRef> describe(const void* data, size_t size_bytes) = 0;
  // The bytes that the other side described. kBadData for what lies outside its region, also
  // kUnavailable and others for memory that is gone; never a null pointer. `size_bytes` > 0.
  virtual Result<ResolvedMemory> resolve(const MemoryRef& ref) = 0;
};

}  // namespace overlord::protocol
