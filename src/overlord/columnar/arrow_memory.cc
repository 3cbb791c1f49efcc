#include "overlord/columnar/arrow_memory.h"

#include <algorithm>
#include <cstring>

namespace overlord::columnar {
namespace {

constexpr int64_t kPooledBytes = 64 << 10;  // smaller ones are better off with the allocator
constexpr int64_t kPoolAlignment = 64;

}  // namespace

struct ArrowMemory::Rep {
  std::unordered_map<const uint8_t*, runtime::Buffer> buffers;
};

ArrowMemory::ArrowMemory(std::shared_ptr<runtime::BufferPool> pool, int64_t limit_bytes)
    : pool_(std::move(pool)), limit_bytes_(limit_bytes), rep_(std::make_unique<Rep>()) {}

ArrowMemory::~ArrowMemory() = default;

arrow::Status ArrowMemory::reserve(int64_t size) {
  const int64_t now = allocated_ += size;
  if (now > limit_bytes_) {
    allocated_ -= size;
    return arrow::Status::OutOfMemory("decoding needs more than ", limit_bytes_, " bytes");
  }
  most_ = std::max<int64_t>(most_, now);
  total_ += size;
  ++count_;
  return arrow::Status::OK();
}

arrow::Status ArrowMemory::Allocate(int64_t size, int64_t alignment, uint8_t** out) {
  if (size < 0) return arrow::Status::Invalid("negative size");
  ARROW_RETURN_NOT_OK(reserve(size));
  if (pool_ == nullptr || size < kPooledBytes || alignment > kPoolAlignment) {
    const arrow::Status status = arrow::default_memory_pool()->Allocate(size, alignment, out);
    if (!status.ok()) allocated_ -= size;
    return status;
  }
  runtime::Buffer buffer = pool_->acquire(static_cast<size_t>(size));
  if (buffer.data == nullptr) {
    allocated_ -= size;
    return arrow::Status::OutOfMemory("no memory for ", size, " bytes");
  }
  *out = reinterpret_cast<uint8_t*>(buffer.data.get());
  rep_->buffers.emplace(*out, std::move(buffer));
  return arrow::Status::OK();
}

arrow::Status ArrowMemory::Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                                      uint8_t** ptr) {
  const bool shrinks = new_size <= old_size && new_size >= kPooledBytes;
  if (shrinks && rep_->buffers.contains(*ptr)) {  // builders shrink when they finish: no copy
    allocated_ -= old_size - new_size;
    return arrow::Status::OK();
  }
  uint8_t* fresh = nullptr;
  ARROW_RETURN_NOT_OK(Allocate(new_size, alignment, &fresh));
  std::memcpy(fresh, *ptr, static_cast<size_t>(std::min(old_size, new_size)));
  Free(*ptr, old_size, alignment);
  *ptr = fresh;
  return arrow::Status::OK();
}

void ArrowMemory::Free(uint8_t* buffer, int64_t size, int64_t alignment) {
  allocated_ -= size;
  if (rep_->buffers.erase(buffer) == 0) {
    arrow::default_memory_pool()->Free(buffer, size, alignment);
  }
}

}  // namespace overlord::columnar
