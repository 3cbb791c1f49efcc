#include "overlord/transport/shared/segment_map.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>

#include "overlord/transport/shared/shared_pool.h"

namespace overlord::transport {
namespace {

constexpr size_t kMegabyte = 1 << 20;

runtime::Descriptor copy_of(int descriptor) {
  return runtime::Descriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
}

class SegmentMapTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = SharedPool::make({"map", kMegabyte, 8 * kMegabyte, true});
    ASSERT_TRUE(made.ok()) << made.status().message();
    pool_ = *made;
    buffer_ = pool_->buffers()->acquire(100'000);
    std::memset(buffer_.data.get(), 'a', buffer_.size);
    ref_ = *pool_->find(buffer_.data.get());
  }
  Status add(SegmentMap& map) {
    return map.add(ref_.segment, kMegabyte, copy_of(pool_->descriptor(ref_.segment)));
  }

  std::shared_ptr<SharedPool> pool_;
  runtime::Buffer buffer_;
  SegmentRef ref_;
};

TEST_F(SegmentMapTest, SharesTheOwnersPages) {
  SegmentMap map;
  ASSERT_TRUE(add(map).ok());
  int released = 0;
  auto view = map.view(ref_, buffer_.size, [&released] { ++released; });
  ASSERT_TRUE(view.ok()) << view.status().message();
  EXPECT_NE(view->data, buffer_.data.get());
  EXPECT_EQ(std::memcmp(view->data, buffer_.data.get(), buffer_.size), 0);
  buffer_.data.get()[7] = 'b';
  EXPECT_EQ(view->data[7], 'b');
  runtime::Bytes second = *view;
  *view = {};
  EXPECT_EQ(released, 0);
  second = {};
  EXPECT_EQ(released, 1);
}

TEST_F(SegmentMapTest, PrivatePagesAreCopiedWhenWrittenAndGoWithTheirMap) {
  SegmentMap map(SegmentMapOptions{.private_pages = true});
  ASSERT_TRUE(add(map).ok());
  auto first = map.whole(ref_.segment);
  auto second = map.whole(ref_.segment);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status().message();
  char* const mine = const_cast<char*>(first->data) + ref_.offset;
  const char* const theirs = second->data + ref_.offset;
  mine[7] = 'b';  // as a trainer's in-place operation does
  EXPECT_EQ(mine[7], 'b');
  EXPECT_EQ(mine[8], 'a') << "the rest of the page is what it was";
  EXPECT_EQ(theirs[7], 'a');
  EXPECT_EQ(buffer_.data.get()[7], 'a');
  *first = {};
  std::memset(buffer_.data.get(), 'c', buffer_.size);  // the owner uses the place again
  const auto third = map.whole(ref_.segment);
  ASSERT_TRUE(third.ok());
  EXPECT_EQ(third->data[ref_.offset + 7], 'c') << "no page of the map before is left";
  EXPECT_EQ(theirs[7], 'c') << "what was not written is shared";
  EXPECT_TRUE(map.forget(ref_.segment));
  EXPECT_EQ(map.whole(ref_.segment).status().code(), Code::kBadData);
  EXPECT_EQ(third->data[ref_.offset], 'c');
}

TEST_F(SegmentMapTest, AViewSurvivesOwnerAndMap) {
  runtime::Bytes view;
  bool released = false;
  {
    SegmentMap map;
    ASSERT_TRUE(add(map).ok());
    view = *map.view(ref_, buffer_.size, [&released] { released = true; });
    EXPECT_TRUE(map.forget(ref_.segment));
    EXPECT_FALSE(map.forget(ref_.segment));
    EXPECT_EQ(map.mapped_bytes(), 0u);
    EXPECT_EQ(map.view(ref_, 1, nullptr).status().code(), Code::kBadData);
  }
  buffer_ = {};
  pool_.reset();
  EXPECT_EQ(view.data[0], 'a');
  EXPECT_EQ(view.data[view.size - 1], 'a');
  EXPECT_FALSE(released);
  view = {};
  EXPECT_TRUE(released);
}

TEST_F(SegmentMapTest, RefusesWhatIsNotInside) {
  SegmentMap map;
  ASSERT_TRUE(add(map).ok());
  bool called = false;
  const auto refused = [&](SegmentRef ref, uint64_t size) {
    const auto view = map.view(ref, size, [&called] { called = true; });
    return !view.ok() && view.status().code() == Code::kBadData;
  };
  const SegmentId id = ref_.segment;
  EXPECT_TRUE(refused({id + 1, 0}, 1));
  EXPECT_TRUE(refused({id, 0}, kMegabyte + 1));
  EXPECT_TRUE(refused({id, kMegabyte + 1}, 0));
  EXPECT_TRUE(refused({id, kMegabyte - 1}, 2));
  EXPECT_TRUE(refused({id, UINT64_MAX}, 2));
  EXPECT_TRUE(refused({id, 64}, UINT64_MAX - 32));
  EXPECT_FALSE(called);
  EXPECT_TRUE(map.view({id, kMegabyte}, 0, nullptr).ok());
  EXPECT_TRUE(map.view({id, 0}, kMegabyte, nullptr).ok());
  EXPECT_EQ(map.refused_count(), 6u);
}

TEST_F(SegmentMapTest, RefusesFilesThatCouldChangeUnderIt) {
  SegmentMap map;
  runtime::Descriptor bare(memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(bare.get(), 8192), 0);
  EXPECT_EQ(map.add(1, 8192, std::move(bare)).code(), Code::kBadData);
  EXPECT_EQ(map.add(2, 1, runtime::Descriptor()).code(), Code::kBadData);
  EXPECT_EQ(map.add(3, kMegabyte + 1, copy_of(pool_->descriptor(ref_.segment))).code(),
            Code::kBadData);
  ASSERT_TRUE(add(map).ok());
  EXPECT_EQ(add(map).code(), Code::kBadData);  // twice
  EXPECT_EQ(map.segments(), 1u);
  EXPECT_EQ(map.mapped_bytes(), kMegabyte);
}

class NotedPinning final : public HostPinning {
 public:
  Status pin(const void* data, size_t size_bytes) override {
    if (refuse) return {Code::kResource, "no memory can be pinned"};
    pinned[data] = size_bytes;
    return {};
  }
  void unpin(const void* data) override {
    // The pages are still there, or this kills the test.
    last_byte = static_cast<const char*>(data)[pinned.at(data) - 1];
    pinned.erase(data);
  }

  std::map<const void*, size_t> pinned;
  char last_byte = 0;
  bool refuse = false;
};

TEST_F(SegmentMapTest, AMapIsPinnedOnceAndUntilItsPagesGo) {
  const auto pinning = std::make_shared<NotedPinning>();
  runtime::Bytes view;
  {
    SegmentMap map({.pinning = pinning});
    ASSERT_TRUE(add(map).ok());
    view = *map.view(ref_, buffer_.size, nullptr);
    const runtime::Bytes second = *map.view(ref_, buffer_.size, nullptr);
    EXPECT_EQ(pinning->pinned.size(), 1u);
    EXPECT_EQ(pinning->pinned.begin()->second, kMegabyte);
  }
  EXPECT_EQ(pinning->pinned.size(), 1u);  // a view is held
  view = {};
  EXPECT_TRUE(pinning->pinned.empty());
}

TEST_F(SegmentMapTest, WhatCannotBePinnedIsRefused) {
  const auto pinning = std::make_shared<NotedPinning>();
  pinning->refuse = true;
  SegmentMap map({.pinning = pinning});
  EXPECT_EQ(add(map).code(), Code::kResource);
  EXPECT_EQ(map.segments(), 0u);
}

TEST(SharedPoolPinning, SegmentsArePinnedWhenMadeAndUnpinnedWhenTheyGo) {
  const auto pinning = std::make_shared<NotedPinning>();
  SharedPoolOptions options{"pinned", kMegabyte, 4 * kMegabyte};
  options.pinning = pinning;
  auto pool = SharedPool::make(options).value();
  runtime::Buffer large = pool->acquire(2 * kMegabyte).value();
  EXPECT_EQ(pinning->pinned.size(), 2u);
  pool.reset();
  EXPECT_FALSE(pinning->pinned.empty());
  large = {};
  EXPECT_TRUE(pinning->pinned.empty());
}

TEST(CudaPinning, WithoutADriverIsAClearRefusal) {
  const auto pinning = cuda_pinning(0);
  if (pinning.ok()) GTEST_SKIP() << "this machine has a CUDA device";
  EXPECT_EQ(pinning.status().code(), Code::kUnavailable);
  EXPECT_NE(pinning.status().message().find("CUDA"), std::string::npos);
}

TEST_F(SegmentMapTest, HoldsItsLimits) {
  SegmentMap map({3 * kMegabyte / 2, 10, false});
  ASSERT_TRUE(add(map).ok());
  EXPECT_EQ(map.add(50, kMegabyte, copy_of(pool_->descriptor(ref_.segment))).code(),
            Code::kResource);
  SegmentMap one({uint64_t{1} << 40, 1, true});
  ASSERT_TRUE(add(one).ok());
  EXPECT_EQ(one.add(50, 1, copy_of(pool_->descriptor(ref_.segment))).code(), Code::kResource);
}

TEST_F(SegmentMapTest, WritingThroughAViewFaults) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  SegmentMap map;
  ASSERT_TRUE(add(map).ok());
  const auto view = map.view(ref_, buffer_.size, nullptr);
  EXPECT_DEATH(*const_cast<volatile char*>(view->data) = 1, "");
  EXPECT_NE(
      mprotect(const_cast<char*>(view->data - ref_.offset), kMegabyte, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(view->data[0], 'a');
}

}  // namespace
}  // namespace overlord::transport
