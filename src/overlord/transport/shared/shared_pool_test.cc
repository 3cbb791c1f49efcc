#include "overlord/transport/shared/shared_pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace overlord::transport {
namespace {

constexpr size_t kPoolMegabyte = 1 << 20;

std::shared_ptr<SharedPool> pool_of(size_t segment_bytes, uint64_t limit_bytes,
                                    SharedPool::Retired retired = nullptr) {
  auto pool = SharedPool::make({"test", segment_bytes, limit_bytes, true}, std::move(retired));
  EXPECT_TRUE(pool.ok()) << pool.status().message();
  return *pool;
}

// How many maps of this process have `name` in them.
int maps_named(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(name) != std::string::npos;
  return count;
}

TEST(SharedSegment, IsSealedForEverybodyAndWritableForItsMaker) {
  const auto segment = SharedSegment::make(7, "sealed", kPoolMegabyte + 5, true);
  ASSERT_TRUE(segment.ok()) << segment.status().message();
  const int descriptor = (*segment)->descriptor();
  const size_t size = (*segment)->size_bytes();
  EXPECT_GE(size, kPoolMegabyte + 5);
  EXPECT_NE(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_TRUE(check_sealed(descriptor, size, "it").ok());

  EXPECT_NE(ftruncate(descriptor, static_cast<off_t>(size / 2)), 0);
  EXPECT_NE(ftruncate(descriptor, static_cast<off_t>(size * 2)), 0);
  EXPECT_EQ(pwrite(descriptor, "x", 1, 0), -1);
  EXPECT_EQ(fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  EXPECT_EQ(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0), MAP_FAILED);
  EXPECT_NE(fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE), 0);  // not even more seals

  // Through /proc the file opens again, but no less sealed.
  const runtime::Descriptor again(
      open(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), O_RDWR));
  ASSERT_TRUE(again.valid());
  EXPECT_EQ(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0), MAP_FAILED);
  EXPECT_EQ(write(again.get(), "x", 1), -1);

  void* reader = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  ASSERT_NE(reader, MAP_FAILED);
  EXPECT_NE(mprotect(reader, size, PROT_READ | PROT_WRITE), 0);
  std::memset((*segment)->data(), 9, size);
  EXPECT_EQ(static_cast<const char*>(reader)[size - 1], 9);
  munmap(reader, size);
}

TEST(SharedSegment, ChecksWhatItIsGiven) {
  const runtime::Descriptor bare(memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(bare.get(), 8192), 0);
  EXPECT_EQ(check_sealed(bare.get(), 8192, "it").code(), Code::kBadData);
  ASSERT_EQ(fcntl(bare.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_EQ(check_sealed(bare.get(), 8192, "it").code(), Code::kBadData);
  ASSERT_EQ(fcntl(bare.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_EQ(check_sealed(bare.get(), 8192, "it").code(), Code::kBadData);
  ASSERT_EQ(fcntl(bare.get(), F_ADD_SEALS, F_SEAL_SEAL), 0);
  EXPECT_TRUE(check_sealed(bare.get(), 8192, "it").ok());
  EXPECT_EQ(check_sealed(bare.get(), 8193, "it").code(), Code::kBadData);  // short
  EXPECT_EQ(check_sealed(bare.get(), 0, "it").code(), Code::kBadData);
  const runtime::Descriptor other(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(check_sealed(other.get(), 1, "it").code(), Code::kBadData);
}

TEST(SharedPool, DescribesEveryBufferByItsPlace) {
  const auto pool = pool_of(4 * kPoolMegabyte, 64 * kPoolMegabyte);
  std::vector<runtime::Buffer> buffers;
  for (const size_t size : {size_t{1}, size_t{63}, size_t{70000}, size_t{3'000'000},
                            size_t{9'000'000}, size_t{500}, size_t{2'000'000}}) {
    buffers.push_back(pool->buffers()->acquire(size));
    ASSERT_NE(buffers.back().data, nullptr);
    std::memset(buffers.back().data.get(), static_cast<int>(buffers.size()), size);
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    const char* data = buffers[i].data.get();
    const auto ref = pool->find(data);
    ASSERT_TRUE(ref);
    EXPECT_EQ(ref->offset % 64, 0u);
    EXPECT_EQ(*pool->find(data + buffers[i].size - 1),
              (SegmentRef{ref->segment, ref->offset + buffers[i].size - 1}));
    // What another process would read there.
    std::vector<char> seen(buffers[i].size);
    const int descriptor = pool->descriptor(ref->segment);
    ASSERT_EQ(pread(descriptor, seen.data(), seen.size(), static_cast<off_t>(ref->offset)),
              static_cast<ssize_t>(seen.size()));
    EXPECT_EQ(seen, std::vector<char>(data, data + buffers[i].size));
  }
  EXPECT_FALSE(pool->find(&pool));
  EXPECT_FALSE(pool->find(nullptr));
  EXPECT_EQ(pool->descriptor(999), -1);
}

TEST(SharedPool, RecyclesWithoutTouchingNewPages) {
  const auto pool = pool_of(16 * kPoolMegabyte, 64 * kPoolMegabyte);
  for (int turn = 0; turn < 2000; ++turn) {
    std::vector<runtime::Buffer> held;
    for (size_t i = 0; i < 5; ++i) {
      held.push_back(pool->buffers()->acquire(100'000 + (turn * 37 + i * 1013) % 2'000'000));
      ASSERT_NE(held.back().data, nullptr);
    }
  }
  EXPECT_EQ(pool->stats().made_count, 1u);
  EXPECT_EQ(pool->stats().held_bytes, 0u);
  EXPECT_EQ(pool->stats().largest_free_bytes, 16 * kPoolMegabyte);
  EXPECT_EQ(pool->buffers()->stats().fresh_count, 0u);
  EXPECT_EQ(pool->buffers()->stats().reused_count, 10000u);
}

TEST(SharedPool, RefusesPastItsLimitWithAReason) {
  const auto pool = pool_of(4 * kPoolMegabyte, 10 * kPoolMegabyte);
  const auto a = pool->acquire(4 * kPoolMegabyte), b = pool->acquire(4 * kPoolMegabyte);
  ASSERT_TRUE(a.ok() && b.ok());
  const auto c = pool->acquire(4 * kPoolMegabyte);
  ASSERT_FALSE(c.ok());
  EXPECT_EQ(c.status().code(), Code::kResource);
  EXPECT_NE(c.status().message().find("the limit is 10485760"), std::string::npos)
      << c.status().message();
  EXPECT_TRUE(
      pool->acquire(2 * kPoolMegabyte).ok());  // the rest below the limit is a small segment
  EXPECT_EQ(pool->stats().segment_bytes, 10 * kPoolMegabyte);
  EXPECT_FALSE(pool->acquire(size_t{1} << 50).ok());
  EXPECT_GE(pool->stats().refused_count, 1u);
}

TEST(SharedPool, FreeSegmentsMakeRoomForALargerOne) {
  std::vector<SegmentId> retired;
  const auto pool = pool_of(4 * kPoolMegabyte, 16 * kPoolMegabyte,
                            [&retired](SegmentId id) { retired.push_back(id); });
  auto kept = pool->acquire(kPoolMegabyte);
  {
    std::vector<runtime::Buffer> held;
    for (int i = 0; i < 3; ++i) held.push_back(pool->buffers()->acquire(4 * kPoolMegabyte));
    EXPECT_EQ(pool->stats().segments, 4u);
  }
  EXPECT_FALSE(pool->acquire(14 * kPoolMegabyte).ok());  // would need the segment that is in use
  EXPECT_TRUE(retired.empty());
  const auto large = pool->acquire(11 * kPoolMegabyte);
  ASSERT_TRUE(large.ok()) << large.status().message();
  EXPECT_EQ(retired.size(), 3u);
  EXPECT_EQ(pool->descriptor(retired[0]), -1);
  EXPECT_NE(pool->descriptor(pool->find(kept->data.get())->segment), -1);
  EXPECT_LE(pool->stats().segment_bytes, 16 * kPoolMegabyte);
}

TEST(SharedPool, BuffersOutliveItAndNothingIsLeft) {
  auto pool = SharedPool::make({"outlive", kPoolMegabyte, 8 * kPoolMegabyte, false});
  ASSERT_TRUE(pool.ok());
  auto buffer = (*pool)->acquire(100'000);
  *pool = nullptr;
  std::memset(buffer->data.get(), 1, buffer->size);
  EXPECT_EQ(maps_named("overlord-outlive"), 1);
  *buffer = {};
  EXPECT_EQ(maps_named("overlord-outlive"), 0);
}

TEST(SharedPool, IsSafeFromManyThreads) {
  const auto pool = pool_of(4 * kPoolMegabyte, 64 * kPoolMegabyte);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 500; ++i) {
        const size_t size = 1000 + static_cast<size_t>(i * 7919 % 3'000'000);
        const runtime::Buffer buffer = pool->buffers()->acquire(size);
        ASSERT_NE(buffer.data, nullptr);
        buffer.data.get()[0] = buffer.data.get()[size - 1] = static_cast<char>(t);
        EXPECT_TRUE(pool->find(buffer.data.get() + size - 1));
        EXPECT_EQ(buffer.data.get()[0], static_cast<char>(t));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(pool->stats().held_bytes, 0u);
}

TEST(SharedPool, ASmallPoolStartsSmallAndGrowsByQuarters) {
  auto pool =
      *SharedPool::make({"small", 16 * kPoolMegabyte, 64 * kPoolMegabyte, false, kPoolMegabyte});
  EXPECT_EQ(pool->stats().segment_bytes, kPoolMegabyte);
  std::vector<runtime::Buffer> held;
  uint64_t before = kPoolMegabyte;
  while (pool->stats().segment_bytes < 40 * kPoolMegabyte) {
    held.push_back(*pool->acquire(kPoolMegabyte / 4));
    const uint64_t now = pool->stats().segment_bytes;
    EXPECT_LE(now - before, std::max<uint64_t>(kPoolMegabyte, before / 4));
    before = now;
  }
  EXPECT_LE(pool->stats().segments, 24u) << "few descriptors to pass on";
  held.push_back(*pool->acquire(5 * kPoolMegabyte));  // more than the next segment would have
  EXPECT_NE(held.back().data, nullptr);
}

}  // namespace
}  // namespace overlord::transport
