// Bulk bytes of a message: references into shared regions, or an attachment to the message in which
// every piece lies at a multiple of 64 bytes, in the order of first mention, once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "overlord/base/bytes.h"
#include "overlord/protocol/fields/field_codec.h"
#include "overlord/protocol/region_table.h"

namespace overlord::protocol {

inline constexpr size_t kBulkAlignment = 64;

class BulkWriter {
 public:
  explicit BulkWriter(RegionTable* regions) : regions_(regions) {}  // null: no shared memory

  void write(ByteWriter* writer, const void* data, uint64_t size_bytes);
  const std::string& attachment() const { return attachment_; }

 private:
  RegionTable* regions_;
  std::string attachment_;
  std::map<std::pair<const void*, uint64_t>, uint64_t> pieces_;  // by memory: number in order
};

struct BulkBytes {
  const void* data = nullptr;
  uint64_t size_bytes = 0;
  std::shared_ptr<const void> holder;
};

class BulkReader {
 public:
  // Copies the attachment into memory of its own.
  BulkReader(RegionTable* regions, std::string_view attachment);

  BulkBytes read(FieldReader* reader);
  // What a region table said, or that the attachment is not what was read from it.
  Status finish(std::string_view what) const;

 private:
  BulkBytes attached(FieldReader* reader);
  BulkBytes mentioned(FieldReader* reader);
  BulkBytes in_region(FieldReader* reader);

  RegionTable* regions_;
  std::shared_ptr<char> memory_;
  uint64_t size_bytes_ = 0;
  uint64_t used_bytes_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> pieces_;  // offset, size
  Status status_;
};

}  // namespace overlord::protocol
