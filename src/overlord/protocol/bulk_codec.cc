#include "overlord/protocol/bulk_codec.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace overlord::protocol {
namespace {

enum BytesKind : uint8_t { kNone, kEmpty, kAttached, kMentioned, kInRegion };

// Empty pieces are not null, which would mean a hole or a field that is not there.
alignas(kBulkAlignment) constexpr char kNothing[kBulkAlignment] = {};

uint64_t aligned(uint64_t size) { return (size + kBulkAlignment - 1) & ~(kBulkAlignment - 1); }

std::shared_ptr<char> aligned_memory(size_t size) {
  constexpr std::align_val_t kAlign{kBulkAlignment};
  return {static_cast<char*>(::operator new(size, kAlign)),
          [](char* memory) { ::operator delete(memory, kAlign); }};
}

}  // namespace

void BulkWriter::write(ByteWriter* writer, const void* data, uint64_t size_bytes) {
  if (data == nullptr) return writer->u8(kNone);
  if (size_bytes == 0) return writer->u8(kEmpty);
  if (regions_ != nullptr) {
    if (const auto ref = regions_->describe(data, size_bytes)) {
      writer->u8(kInRegion);
      writer->varint(ref->region);
      writer->varint(ref->offset);
      writer->varint(ref->size_bytes);
      return;
    }
  }
  const auto [found, fresh] = pieces_.try_emplace({data, size_bytes}, pieces_.size());
  if (!fresh) {
    writer->u8(kMentioned);
    writer->varint(found->second);
    return;
  }
  writer->u8(kAttached);
  writer->varint(size_bytes);
  attachment_.resize(aligned(attachment_.size()));
  attachment_.append(static_cast<const char*>(data), size_bytes);
}

BulkReader::BulkReader(RegionTable* regions, std::string_view attachment)
    : regions_(regions), size_bytes_(attachment.size()) {
  if (attachment.empty()) return;
  memory_ = aligned_memory(attachment.size());
  std::memcpy(memory_.get(), attachment.data(), attachment.size());
}

BulkBytes BulkReader::attached(FieldReader* reader) {
  uint64_t size = 0;
  (*reader)(size);
  const uint64_t offset = aligned(used_bytes_);
  if (size == 0 || offset > size_bytes_ || size > size_bytes_ - offset) {
    reader->refuse();
    return {};
  }
  const char* base = memory_.get();
  if (std::any_of(base + used_bytes_, base + offset, [](char byte) { return byte != 0; })) {
    reader->refuse();
  }
  used_bytes_ = offset + size;
  pieces_.emplace_back(offset, size);
  return {base + offset, size, memory_};
}

BulkBytes BulkReader::mentioned(FieldReader* reader) {
  uint64_t piece = 0;
  (*reader)(piece);
  if (piece >= pieces_.size()) {
    reader->refuse();
    return {};
  }
  const auto [offset, size] = pieces_[piece];
  return {memory_.get() + offset, size, memory_};
}

BulkBytes BulkReader::in_region(FieldReader* reader) {
  MemoryRef ref;
  (*reader)(ref.region, ref.offset, ref.size_bytes);
  if (ref.size_bytes == 0 || regions_ == nullptr) reader->refuse();
  if (reader->failed() || !status_.ok()) return {};
  auto resolved = regions_->resolve(ref);
  if (!resolved.ok()) {
    status_ = resolved.status();
    return {};
  }
  return {resolved->data, ref.size_bytes, std::move(resolved->holder)};
}

BulkBytes BulkReader::read(FieldReader* reader) {
  switch (reader->bytes().u8()) {
    case kNone:
      return {};
    case kEmpty:
      return {kNothing, 0, nullptr};
    case kAttached:
      return attached(reader);
    case kMentioned:
      return mentioned(reader);
    case kInRegion:
      return in_region(reader);
    default:
      reader->refuse();
      return {};
  }
}

Status BulkReader::finish(std::string_view what) const {
  if (!status_.ok()) return status_.with_context(what);
  if (used_bytes_ != size_bytes_) {
    return bad_data(std::string(what) + ": " + std::to_string(size_bytes_ - used_bytes_) +
                    " attached bytes that nothing refers to");
  }
  return {};
}

}  // namespace overlord::protocol
