// Bytes and BufferPool: memory that is touched once and used again.
// A Bytes is an immutable, shared view; a pool hands out 64-byte aligned memory and takes it back
// when the last holder lets go. Thread-safe; owned by the node that makes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace overlord::runtime {

struct Bytes {
  std::shared_ptr<const void> holder;
  const char* data = nullptr;
  size_t size = 0;

  static Bytes copy_of(const std::string& text);
};

// A writable pooled buffer, shared once it is filled.
struct Buffer {
  std::shared_ptr<char> data;  // 64-byte aligned
  size_t size = 0;

  Bytes view() const { return {data, data.get(), size}; }
};

struct PoolStats {
  uint64_t held_bytes = 0;   // handed out now
  uint64_t idle_bytes = 0;   // kept for reuse
  uint64_t fresh_count = 0;  // allocations that had to touch new memory
  uint64_t reused_count = 0;
};

class BufferPool {
 public:
  // Keeps at most `idle_limit_bytes` for reuse; more than that goes back to the system.
  static std::shared_ptr<BufferPool> make(uint64_t idle_limit_bytes);

  // Memory of at least `size_bytes`, contents undefined; `data` is null when the system has none.
  // Buffers may outlive the pool: they then go straight back to the system.
  Buffer acquire(size_t size_bytes);
  PoolStats stats() const;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

 private:
  explicit BufferPool(uint64_t idle_limit_bytes);
  struct Rep;
  std::shared_ptr<Rep> rep_;
};

}  // namespace overlord::runtime
