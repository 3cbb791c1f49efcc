#include "overlord/runtime/buffer.h"

#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "overlord/base/guarded_by.h"

namespace overlord::runtime {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallestClass = 64 << 10;
constexpr int kSmallestShift = 16;
// Past this a request is a mistake of ours, and rounding it up could overflow.
constexpr size_t kLargestRequest = size_t{1} << 46;
constexpr size_t kClasses = 4 * (46 - kSmallestShift) + 1;

static_assert(size_t{1} << kSmallestShift == kSmallestClass);

struct SizeClass {
  size_t index = 0;
  size_t capacity = 0;
};

// Four classes per power of two: at most a fifth of a buffer is unused.
SizeClass class_of(size_t size_bytes) {
  if (size_bytes <= kSmallestClass) return {0, kSmallestClass};
  const int shift = std::bit_width(size_bytes - 1) - 1;  // 2^shift < size <= 2^(shift+1)
  const size_t base = size_t{1} << shift;
  const size_t step = base / 4;
  const size_t quarter = (size_bytes - base + step - 1) / step;  // 1..4
  return {4 * static_cast<size_t>(shift - kSmallestShift) + quarter, base + quarter * step};
}

// The inverse of class_of().
size_t capacity_of(size_t index) {
  if (index == 0) return kSmallestClass;
  const size_t base = kSmallestClass << ((index - 1) / 4);
  return base + ((index - 1) % 4 + 1) * (base / 4);
}

char* allocate(size_t capacity) {
  return static_cast<char*>(std::aligned_alloc(kAlignment, capacity));
}

size_t aligned_size(size_t size_bytes) {
  return size_bytes == 0 ? kAlignment : (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Bytes Bytes::copy_of(const std::string& text) {
  auto copy = std::make_shared<const std::string>(text);
  return {copy, copy->data(), copy->size()};
}

struct BufferPool::Rep {
  Rep(uint64_t limit, std::shared_ptr<MemorySource> source_of_memory)
      : idle_limit_bytes(limit), source(std::move(source_of_memory)) {}
  ~Rep() { drop_idle(); }

  // The system is no MemorySource: the common case pays for no virtual call.
  MemoryPiece take(size_t size_bytes) {
    return source ? source->take(size_bytes) : MemoryPiece{allocate(size_bytes), true};
  }

  void put_back(char* data, size_t size_bytes) {
    source ? source->give_back(data, size_bytes) : std::free(data);
  }

  void give_back(char* data, size_t index, size_t capacity) {
    {
      std::lock_guard lock(mutex);
      stats.held_bytes -= capacity;
      if (!closed && stats.idle_bytes + capacity <= idle_limit_bytes) {
        idle[index].push_back(data);
        stats.idle_bytes += capacity;
        return;
      }
    }
    put_back(data, capacity);
  }

  void drop_idle() OVERLORD_REQUIRES(mutex) {
    for (size_t index = 0; index < kClasses; ++index) {
      for (char* data : idle[index]) put_back(data, capacity_of(index));
      idle[index].clear();
    }
    stats.idle_bytes = 0;
  }

  // Idle memory of other classes may be what is missing.
  MemoryPiece take_after_dropping_idle(size_t size_bytes) {
    {
      std::lock_guard lock(mutex);
      if (stats.idle_bytes == 0) return {};
      drop_idle();
    }
    return take(size_bytes);
  }

  const uint64_t idle_limit_bytes;
  const std::shared_ptr<MemorySource> source;
  std::atomic<uint64_t> small_bytes{0};  // handed out now, below the smallest class
  std::mutex mutex;
  bool closed OVERLORD_GUARDED_BY(mutex) = false;
  PoolStats stats OVERLORD_GUARDED_BY(mutex);
  std::vector<char*> idle[kClasses] OVERLORD_GUARDED_BY(mutex);
};

BufferPool::BufferPool(uint64_t idle_limit_bytes, std::shared_ptr<MemorySource> source)
    : rep_(std::make_shared<Rep>(idle_limit_bytes, std::move(source))) {}

std::shared_ptr<BufferPool> BufferPool::make(uint64_t idle_limit_bytes,
                                             std::shared_ptr<MemorySource> source) {
  return std::shared_ptr<BufferPool>(new BufferPool(idle_limit_bytes, std::move(source)));
}

BufferPool::~BufferPool() {
  std::lock_guard lock(rep_->mutex);
  rep_->closed = true;
  rep_->drop_idle();
}

Buffer BufferPool::acquire(size_t size_bytes) {
  if (size_bytes > kLargestRequest) return {};
  if (size_bytes < kSmallestClass) {
    // Small ones are the allocator's trade; pooling them would only add a lock.
    const size_t size = aligned_size(size_bytes);
    char* data = rep_->take(size).data;
    if (data == nullptr) data = rep_->take_after_dropping_idle(size).data;
    if (data == nullptr) return {};
    rep_->small_bytes += size;
    return {std::shared_ptr<char>(data,
                                  [rep = rep_, size](char* p) {
                                    rep->small_bytes -= size;
                                    rep->put_back(p, size);
                                  }),
            size_bytes};
  }
  const SizeClass size_class = class_of(size_bytes);
  char* data = nullptr;
  {
    std::lock_guard lock(rep_->mutex);
    auto& list = rep_->idle[size_class.index];
    if (!list.empty()) {
      data = list.back();
      list.pop_back();
      rep_->stats.idle_bytes -= size_class.capacity;
      ++rep_->stats.reused_count;
      rep_->stats.held_bytes += size_class.capacity;
    }
  }
  if (data == nullptr) {
    MemoryPiece piece = rep_->take(size_class.capacity);
    if (piece.data == nullptr) piece = rep_->take_after_dropping_idle(size_class.capacity);
    data = piece.data;
    if (data == nullptr) return {};
    std::lock_guard lock(rep_->mutex);
    ++(piece.fresh ? rep_->stats.fresh_count : rep_->stats.reused_count);
    rep_->stats.held_bytes += size_class.capacity;
  }
  auto give_back = [rep = rep_, size_class](char* p) {
    rep->give_back(p, size_class.index, size_class.capacity);
  };
  return {std::shared_ptr<char>(data, std::move(give_back)), size_bytes};
}

Status BufferPool::refusal(size_t size_bytes) const {
  if (rep_->source && size_bytes <= kLargestRequest) return rep_->source->refusal(size_bytes);
  return {Code::kResource, "the system has no memory for " + std::to_string(size_bytes) + " bytes"};
}

PoolStats BufferPool::stats() const {
  std::lock_guard lock(rep_->mutex);
  PoolStats stats = rep_->stats;
  stats.held_bytes += rep_->small_bytes.load();
  return stats;
}

}  // namespace overlord::runtime
