// ArrowMemory: an arrow::MemoryPool for one decode. Large buffers come from our BufferPool, so that
// decoding a row group touches no new memory once the pool is warm, and their sum is limited: a
// hostile file cannot take more than its cap. Used by one thread at a time.
#pragma once

#include <arrow/memory_pool.h>

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>

#include "overlord/runtime/buffer.h"

namespace overlord::columnar {

class ArrowMemory final : public arrow::MemoryPool {
 public:
  // `pool` may be null: then Arrow's default pool gives all memory, still under the limit.
  // `expected_bytes`: what the largest buffer will grow to, where it is known; a wrong one only
  // costs time.
  ArrowMemory(std::shared_ptr<runtime::BufferPool> pool, int64_t limit_bytes,
              int64_t expected_bytes = 0);
  ~ArrowMemory() override;

  using MemoryPool::Allocate;
  using MemoryPool::Free;
  using MemoryPool::Reallocate;
  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override;
  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                           uint8_t** ptr) override;
  void Free(uint8_t* buffer, int64_t size, int64_t alignment) override;

  int64_t bytes_allocated() const override { return allocated_; }
  int64_t max_memory() const override { return most_; }
  int64_t total_bytes_allocated() const override { return total_; }
  int64_t num_allocations() const override { return count_; }
  std::string backend_name() const override { return "overlord"; }

 private:
  struct Rep;
  arrow::Status reserve(int64_t size);
  arrow::Status take_pooled(int64_t capacity, uint8_t** out);

  const std::shared_ptr<runtime::BufferPool> pool_;
  const int64_t limit_bytes_;
  const int64_t expected_bytes_;
  std::unique_ptr<Rep> rep_;  // the pooled buffers that are out
  std::atomic<int64_t> allocated_{0}, most_{0}, total_{0}, count_{0};
};

}  // namespace overlord::columnar
