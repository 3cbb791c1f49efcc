// Bytes and BufferPool: memory that is touched once and used again.
// A Bytes is an immutable, shared view; a pool hands out 64-byte aligned memory and takes it back
// when the last holder lets go. Where the memory comes from is a MemorySource: the system, or
// segments that other processes can map. Thread-safe; owned by the node that makes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "overlord/base/status.h"

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

struct MemoryPiece {
  char* data = nullptr;
  bool fresh = true;  // its pages may still have to be touched for the first time
};

// Where a pool gets memory and puts what it does not keep. Thread-safe.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // `size_bytes` (a multiple of 64) of 64-byte aligned memory; `data` is null when there is none.
  virtual MemoryPiece take(size_t size_bytes) = 0;
  // A piece that take() gave, with the size it was asked for.
  virtual void give_back(char* data, size_t size_bytes) = 0;
  // Why `size_bytes` cannot be had now: kResource, with what to do.
  virtual Status refusal(size_t size_bytes) const = 0;
};

class BufferPool {
 public:
  // Keeps at most `idle_limit_bytes` for reuse; more than that goes back to `source`, which is the
  // system when null.
  static std::shared_ptr<BufferPool> make(uint64_t idle_limit_bytes,
                                          std::shared_ptr<MemorySource> source = nullptr);

  // Memory of at least `size_bytes`, contents undefined; `data` is null when the source has none
  // even after what lies idle went back to it; refusal() tells why.
  // Buffers may outlive the pool: they then go straight back to the source.
  Buffer acquire(size_t size_bytes);
  Status refusal(size_t size_bytes) const;
  PoolStats stats() const;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

 private:
  BufferPool(uint64_t idle_limit_bytes, std::shared_ptr<MemorySource> source);
  struct Rep;
  std::shared_ptr<Rep> rep_;
};

}  // namespace overlord::runtime
