#include "overlord/runtime/buffer.h"

#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

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
  explicit Rep(uint64_t limit) : idle_limit_bytes(limit) {}
  ~Rep() { drop_idle(); }

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
    std::free(data);
  }

  void drop_idle() {
    for (auto& list : idle) {
      for (char* data : list) std::free(data);
      list.clear();
    }
    stats.idle_bytes = 0;
  }

  const uint64_t idle_limit_bytes;
  std::atomic<uint64_t> small_bytes{0};  // handed out now, below the smallest class
  std::mutex mutex;
  bool closed = false;
  PoolStats stats;
  std::vector<char*> idle[kClasses];
};

BufferPool::BufferPool(uint64_t idle_limit_bytes) : rep_(std::make_shared<Rep>(idle_limit_bytes)) {}

std::shared_ptr<BufferPool> BufferPool::make(uint64_t idle_limit_bytes) {
  return std::shared_ptr<BufferPool>(new BufferPool(idle_limit_bytes));
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
    char* data = allocate(size);
    if (data == nullptr) return {};
    rep_->small_bytes += size;
    return {std::shared_ptr<char>(data,
                                  [rep = rep_, size](char* p) {
                                    rep->small_bytes -= size;
                                    std::free(p);
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
    data = allocate(size_class.capacity);
    if (data == nullptr) return {};
    std::lock_guard lock(rep_->mutex);
    ++rep_->stats.fresh_count;
    rep_->stats.held_bytes += size_class.capacity;
  }
  auto give_back = [rep = rep_, size_class](char* p) {
    rep->give_back(p, size_class.index, size_class.capacity);
  };
  return {std::shared_ptr<char>(data, std::move(give_back)), size_bytes};
}

PoolStats BufferPool::stats() const {
  std::lock_guard lock(rep_->mutex);
  PoolStats stats = rep_->stats;
  stats.held_bytes += rep_->small_bytes.load();
  return stats;
}

}  // namespace overlord::runtime
