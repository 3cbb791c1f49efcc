#include "overlord/columnar/formats/arrow/arrow_memory.h"

#include <algorithm>
#include <cstring>

namespace overlord::columnar {
namespace {

constexpr int64_t kPooledBytes = 64 << 10;  // smaller ones are better off with the allocator
constexpr int64_t kPoolAlignment = 64;
constexpr int64_t kMostGrowth = 16;  // times what is asked for, so that no footer can lie for more

}  // namespace

struct ArrowMemory::Rep {
  std::unordered_map<const uint8_t*, runtime::Buffer> buffers;
};

ArrowMemory::ArrowMemory(std::shared_ptr<runtime::BufferPool> pool, int64_t limit_bytes,
                         int64_t expected_bytes)
    : pool_(std::move(pool)),
      limit_bytes_(limit_bytes),
      expected_bytes_(expected_bytes),
      rep_(std::make_unique<Rep>()) {}

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
  const arrow::Status status = take_pooled(size, out);
  if (!status.ok()) allocated_ -= size;
  return status;
}

arrow::Status ArrowMemory::take_pooled(int64_t capacity, uint8_t** out) {
  runtime::Buffer buffer = pool_->acquire(static_cast<size_t>(capacity));
  if (buffer.data == nullptr) {
    return arrow::Status::OutOfMemory("no memory for ", capacity, " bytes");
  }
  *out = reinterpret_cast<uint8_t*>(buffer.data.get());
  rep_->buffers.emplace(*out, std::move(buffer));
  return arrow::Status::OK();
}

arrow::Status ArrowMemory::Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                                      uint8_t** ptr) {
  const auto pooled = rep_->buffers.find(*ptr);
  const bool fits = pooled != rep_->buffers.end() && new_size >= kPooledBytes &&
                    new_size <= static_cast<int64_t>(pooled->second.size);
  if (fits) {  // grown into its room, or a builder that shrinks when it finishes: no copy
    if (new_size > old_size) return reserve(new_size - old_size);
    allocated_ -= old_size - new_size;
    return arrow::Status::OK();
  }
  uint8_t* fresh = nullptr;
  const bool grows = pool_ != nullptr && new_size > old_size && new_size >= kPooledBytes &&
                     alignment <= kPoolAlignment;
  if (grows) {  // buffers that grow go on growing: give the room at once
    ARROW_RETURN_NOT_OK(reserve(new_size));
    const int64_t room = std::clamp(expected_bytes_, new_size, kMostGrowth * new_size);
    const arrow::Status status = take_pooled(room, &fresh);
    if (!status.ok()) {
      allocated_ -= new_size;
      return status;
    }
  } else {
    ARROW_RETURN_NOT_OK(Allocate(new_size, alignment, &fresh));
  }
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
