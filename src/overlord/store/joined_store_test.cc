#include "overlord/store/joined_store.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace overlord::store {
namespace {

// Answers when it is told to, from one object of letters.
class PausedStore final : public ObjectStore {
 public:
  struct Get {
    RangeRequest request;
    runtime::CancelToken cancel;
    RangeDone done;
  };

  void get(RangeRequest request, runtime::CancelToken cancel, RangeDone done) override {
    gets.push_back({std::move(request), std::move(cancel), std::move(done)});
  }
  void head(ObjectName, runtime::CancelToken, InfoDone) override {}
  void list(ListRequest, runtime::CancelToken, ListDone) override {}
  void after(int64_t, runtime::Task task) override { tasks.push_back(std::move(task)); }

  void run_tasks() {
    std::deque<runtime::Task> now;
    now.swap(tasks);
    for (runtime::Task& task : now) task();
  }
  void answer_all(const std::string& object) {
    std::deque<Get> now;
    now.swap(gets);
    for (Get& get : now) {
      const RangeRequest& r = get.request;
      get.done(Range{runtime::Bytes::copy_of(object.substr(r.offset, r.size_bytes)), r.etag});
    }
  }

  std::deque<Get> gets;
  std::deque<runtime::Task> tasks;
};

class JoinedStoreTest : public ::testing::Test {
 protected:
  void get(uint64_t offset, uint64_t size, runtime::CancelToken cancel = {},
           const std::string& key = "key", const std::string& etag = "e") {
    const size_t at = got_.size();
    got_.emplace_back("waits");
    joined_.get({{"bucket", key}, offset, size, etag}, cancel, [this, at](Result<Range> range) {
      got_[at] =
          range.ok() ? std::string(range->bytes.data, range->bytes.size) : range.status().message();
    });
  }
  static JoinRule rule() { return {1, 12, 150}; }

  const std::string letters_ = "abcdefghijklmnopqrstuvwxyz";
  std::vector<std::string> got_;
  PausedStore* const store_ = new PausedStore();
  JoinedStore joined_{std::unique_ptr<ObjectStore>(store_), rule()};
};

TEST_F(JoinedStoreTest, NeighboursAreOneRequestAndEachGetsItsOwn) {
  get(7, 3);
  get(0, 7);
  get(2, 2);  // inside of another
  store_->run_tasks();
  ASSERT_EQ(store_->gets.size(), 1u);
  EXPECT_EQ(store_->gets[0].request.offset, 0u);
  EXPECT_EQ(store_->gets[0].request.size_bytes, 10u);
  EXPECT_EQ(store_->gets[0].request.etag, "e");
  store_->answer_all(letters_);
  EXPECT_EQ(got_, (std::vector<std::string>{"hij", "abcdefg", "cd"}));
}

TEST_F(JoinedStoreTest, WhatLiesApartIsNotReadOver) {
  get(0, 2);
  get(6, 2);  // four bytes that nobody wants for four that somebody does
  get(12, 7);
  get(20, 3);  // one for ten is borne
  store_->run_tasks();
  ASSERT_EQ(store_->gets.size(), 3u);
  EXPECT_EQ(store_->gets[0].request.size_bytes, 2u);
  EXPECT_EQ(store_->gets[1].request.size_bytes, 2u);
  EXPECT_EQ(store_->gets[2].request.size_bytes, 11u);
  store_->answer_all(letters_);
  EXPECT_EQ(got_, (std::vector<std::string>{"ab", "gh", "mnopqrs", "uvw"}));
}

TEST_F(JoinedStoreTest, OtherObjectsAndVersionsStayApart) {
  get(0, 2);
  get(2, 2, {}, "other");
  get(2, 2, {}, "key", "other");
  get(2, 2, {}, "key", "");  // of any version: not even asked for with others
  store_->run_tasks();
  EXPECT_EQ(store_->gets.size(), 4u);
  store_->answer_all(letters_);
  EXPECT_EQ(got_, (std::vector<std::string>{"ab", "cd", "cd", "cd"}));
}

TEST_F(JoinedStoreTest, ARequestHasAnEnd) {
  for (uint64_t i = 0; i < 13; ++i) get(2 * i, 2);
  store_->run_tasks();
  EXPECT_EQ(store_->gets.size(), 3u);
  for (const auto& each : store_->gets) EXPECT_LE(each.request.size_bytes, 12u);
  store_->answer_all(letters_);
  for (size_t i = 0; i < got_.size(); ++i) EXPECT_EQ(got_[i], letters_.substr(2 * i, 2));
}

TEST_F(JoinedStoreTest, AFailureIsEverybodys) {
  get(0, 2);
  get(2, 2);
  store_->run_tasks();
  ASSERT_EQ(store_->gets.size(), 1u);
  store_->gets[0].done(Status(Code::kSourceChanged, "changed"));
  EXPECT_EQ(got_, (std::vector<std::string>{"changed", "changed"}));
}

TEST_F(JoinedStoreTest, ItIsWithdrawnWhenAllAre) {
  runtime::CancelToken first, second;
  get(0, 2, first);
  get(2, 2, second);
  store_->run_tasks();
  ASSERT_EQ(store_->gets.size(), 1u);
  first.cancel();
  store_->run_tasks();
  EXPECT_FALSE(store_->gets[0].cancel.cancelled());
  second.cancel();
  store_->run_tasks();
  EXPECT_TRUE(store_->gets[0].cancel.cancelled());
  EXPECT_TRUE(store_->tasks.empty()) << "nobody looks any more";
  store_->answer_all(letters_);
}

}  // namespace
}  // namespace overlord::store
