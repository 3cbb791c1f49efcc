#include "overlord/runtime/buffer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace overlord::runtime {
namespace {

bool aligned(const Buffer& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.data.get()) % 64 == 0;
}

TEST(BufferPool, GivesAlignedMemoryOfEverySize) {
  auto pool = BufferPool::make(1 << 20);
  for (size_t size : {size_t{0}, size_t{1}, size_t{63}, size_t{65535}, size_t{65536}, size_t{65537},
                      size_t{81920}, size_t{81921}, size_t{131072}, size_t{1000001}}) {
    const Buffer buffer = pool->acquire(size);
    ASSERT_NE(buffer.data, nullptr) << size;
    EXPECT_TRUE(aligned(buffer)) << size;
    EXPECT_EQ(buffer.size, size);
    std::memset(buffer.data.get(), 1, size);  // the address sanitizer sees a short class
  }
}

TEST(BufferPool, EveryClassHoldsItsRequest) {
  auto pool = BufferPool::make(0);
  for (size_t size = 60000; size < 3'000'000; size = size * 21 / 20 + 1) {
    const Buffer buffer = pool->acquire(size);
    const uint64_t held = pool->stats().held_bytes;
    if (size < 65536) continue;
    EXPECT_GE(held, size);
    EXPECT_LE(held, size + size / 4 + 1);
  }
}

TEST(BufferPool, ReusesMemoryOfTheSameClass) {
  auto pool = BufferPool::make(8 << 20);
  char* first = pool->acquire(1 << 20).data.get();
  const Buffer again = pool->acquire((1 << 20) - 100);
  EXPECT_EQ(again.data.get(), first);
  EXPECT_EQ(pool->stats().fresh_count, 1u);
  EXPECT_EQ(pool->stats().reused_count, 1u);
}

TEST(BufferPool, KeepsNoMoreThanItsIdleLimit) {
  auto pool = BufferPool::make(2 << 20);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 5; ++i) buffers.push_back(pool->acquire(1 << 20));
  EXPECT_EQ(pool->stats().held_bytes, 5u << 20);
  buffers.clear();
  EXPECT_EQ(pool->stats().held_bytes, 0u);
  EXPECT_EQ(pool->stats().idle_bytes, 2u << 20);
}

TEST(BufferPool, BuffersOutliveThePool) {
  Bytes bytes;
  {
    auto pool = BufferPool::make(8 << 20);
    Buffer buffer = pool->acquire(1 << 20);
    std::memset(buffer.data.get(), 7, buffer.size);
    bytes = buffer.view();
  }
  EXPECT_EQ(bytes.data[bytes.size - 1], 7);
}

TEST(BufferPool, IsSafeFromManyThreads) {
  auto pool = BufferPool::make(16 << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 500; ++i) {
        Buffer buffer = pool->acquire(65536 + static_cast<size_t>(i % 7) * 30000);
        buffer.data.get()[0] = static_cast<char>(t);
        EXPECT_EQ(buffer.data.get()[0], static_cast<char>(t));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(pool->stats().held_bytes, 0u);
}

TEST(BufferPool, RefusesAnAbsurdRequest) {
  auto pool = BufferPool::make(0);
  EXPECT_EQ(pool->acquire(~size_t{0}).data, nullptr);
}

TEST(Bytes, CopyOfKeepsItsText) {
  const Bytes bytes = Bytes::copy_of(std::string(1000, 'x'));
  EXPECT_EQ(bytes.size, 1000u);
  EXPECT_EQ(bytes.data[999], 'x');
}

// Gives the memory of one array, once, and writes down what comes back.
class OneArray final : public MemorySource {
 public:
  explicit OneArray(size_t size_bytes) : memory_(size_bytes + 64) {}
  MemoryPiece take(size_t size_bytes) override {
    if (used_ || size_bytes > memory_.size() - 64) return {};
    used_ = true;
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return {memory_.data() + (64 - address % 64), ++takes_ == 1};
  }
  void give_back(char*, size_t size_bytes) override {
    used_ = false;
    returned.push_back(size_bytes);
  }
  Status refusal(size_t size_bytes) const override {
    return {Code::kResource, "one array, not " + std::to_string(size_bytes)};
  }
  std::vector<size_t> returned;

 private:
  std::vector<char> memory_;
  bool used_ = false;
  int takes_ = 0;
};

TEST(BufferPool, DrawsOnItsSourceAndGivesEveryPieceBackWithItsSize) {
  auto source = std::make_shared<OneArray>(3 << 20);
  std::vector<size_t> asked;
  {
    auto pool = BufferPool::make(0, source);
    for (size_t size = 1; size < (3 << 20); size = size * 9 / 5 + 1) {
      Buffer buffer = pool->acquire(size);
      ASSERT_NE(buffer.data, nullptr) << size;
      std::memset(buffer.data.get(), 1, size);
      asked.push_back(pool->stats().held_bytes);
    }
    EXPECT_EQ(pool->refusal(77).message(), "one array, not 77");
  }
  EXPECT_EQ(source->returned, asked);
}

TEST(BufferPool, IdleMemoryOfAnotherClassIsNoReasonToRefuse) {
  auto source = std::make_shared<OneArray>(3 << 20);
  auto pool = BufferPool::make(8 << 20, source);
  pool->acquire(1 << 20);
  EXPECT_EQ(pool->stats().idle_bytes, 1u << 20);
  EXPECT_NE(pool->acquire(2 << 20).data, nullptr);
  EXPECT_EQ(source->returned, std::vector<size_t>{1 << 20});
  EXPECT_EQ(pool->stats().fresh_count, 1u);
  EXPECT_EQ(pool->stats().reused_count, 1u);
  EXPECT_NE(pool->acquire(100).data, nullptr);  // small ones too
}

TEST(BufferPool, BuffersKeepTheirSourceAlive) {
  auto source = std::make_shared<OneArray>(1 << 20);
  Buffer buffer = BufferPool::make(8 << 20, source)->acquire(1 << 20);
  std::weak_ptr<OneArray> watched = source;
  source.reset();
  ASSERT_FALSE(watched.expired());
  std::memset(buffer.data.get(), 1, buffer.size);
  buffer = {};
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace overlord::runtime
