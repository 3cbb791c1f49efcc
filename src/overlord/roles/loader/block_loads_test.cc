#include "overlord/roles/loader/block_loads.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>

#include "overlord/runtime/steady_clock.h"

namespace overlord::loader {
namespace {

// Blocks without rows, for which nothing is read.
class EmptyBlocks : public columnar::BlockReader {
 public:
  Result<std::vector<columnar::RangeRequest>> ranges(const columnar::BlockRequest&) const override {
    return std::vector<columnar::RangeRequest>();
  }
  Result<columnar::RowBlock> decode(const columnar::BlockRequest&,
                                    const std::vector<runtime::Bytes>&) const override {
    return columnar::RowBlock();
  }
};

class Tasks : public runtime::Executor {
 public:
  void post(runtime::Task task) override { tasks_.push_back(std::move(task)); }
  void post_after(int64_t, runtime::Task task) override { post(std::move(task)); }
  size_t waiting() const { return tasks_.size(); }
  void run_all() {
    while (!tasks_.empty()) {
      const runtime::Task task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }

 private:
  std::deque<runtime::Task> tasks_;
};

class BlockLoadsTest : public testing::Test {
 protected:
  BlockLoadsTest() {
    auto source = std::make_shared<OpenSource>();
    source->manifest.blocks = entries_;
    source->reader = std::make_unique<EmptyBlocks>();
    LoaderSeams seams;
    seams.executor = &now_;
    seams.spare_executor = &spare_;
    seams.clock = &clock_;
    seams.on_loop = [](const runtime::Task& task) { task(); };
    seams.reclaim = [] {};
    loads_ = std::make_shared<BlockLoads>(source, std::make_shared<PayloadBudget>(1 << 20), seams,
                                          &probe_);
  }
  ~BlockLoadsTest() override { loads_->stop(); }

  BlockDone counting(int* done) {
    return [done](const Result<TokenBlockPtr>& block) { *done += block.ok() ? 1 : 1000; };
  }

  const std::vector<model::BlockEntry> entries_ = std::vector<model::BlockEntry>(2);
  runtime::SteadyClock clock_;
  Tasks now_, spare_;
  LoaderProbe probe_;
  std::shared_ptr<BlockLoads> loads_;
};

TEST_F(BlockLoadsTest, AShadowDecodesInSpareTime) {
  int warmed = 0;
  ASSERT_TRUE(loads_->warm_in_spare_time(0, [&] { ++warmed; }));
  EXPECT_EQ(now_.waiting(), 0u);
  EXPECT_EQ(spare_.waiting(), 1u);
  spare_.run_all();
  EXPECT_EQ(warmed, 1);
  int served = 0;
  loads_->load(0, {}, counting(&served));
  EXPECT_EQ(served, 1) << "it is kept";
}

TEST_F(BlockLoadsTest, WhatIsNeededNowDoesNotWaitForSpareTime) {
  int warmed = 0, served = 0;
  ASSERT_TRUE(loads_->warm_in_spare_time(0, [&] { ++warmed; }));
  loads_->load(0, {}, counting(&served));
  loads_->load(0, {}, counting(&served));
  EXPECT_EQ(now_.waiting(), 1u) << "one read serves both";
  now_.run_all();
  EXPECT_EQ(served, 2);
  EXPECT_EQ(warmed, 1);
  spare_.run_all();  // comes too late, and nobody hears of it
  EXPECT_EQ(served, 2);
  EXPECT_EQ(warmed, 1);
}

TEST_F(BlockLoadsTest, WhoComesFirstServesAll) {
  int warmed = 0, served = 0;
  ASSERT_TRUE(loads_->warm_in_spare_time(1, [&] { ++warmed; }));
  loads_->load(1, {}, counting(&served));
  spare_.run_all();
  EXPECT_EQ(served, 1);
  now_.run_all();
  EXPECT_EQ(served, 1);
  EXPECT_EQ(warmed, 1);
}

TEST_F(BlockLoadsTest, AReadThatIsNeededServesAShadowToo) {
  int warmed = 0, served = 0;
  loads_->load(1, {}, counting(&served));
  ASSERT_TRUE(loads_->warm_in_spare_time(1, [&] { ++warmed; }));
  EXPECT_EQ(spare_.waiting(), 0u);
  now_.run_all();
  EXPECT_EQ(warmed + served, 2);
}

}  // namespace
}  // namespace overlord::loader
