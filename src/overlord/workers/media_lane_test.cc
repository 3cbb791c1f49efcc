#include "overlord/workers/media_lane.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace overlord::workers {
namespace {

using runtime::FunctionItem;
using runtime::TextRows;

uint64_t number_after(std::string_view text, const std::string& name) {
  const size_t at = text.find("\"" + name + "\":");
  return std::stoull(std::string(text.substr(at + name.size() + 3)));
}

std::string text_after(std::string_view text, const std::string& name) {
  const size_t begin = text.find("\"" + name + "\":\"") + name.size() + 4;
  return std::string(text.substr(begin, text.find('"', begin) - begin));
}

// What a made-up function does, by the first byte of an item: 'x' kills whoever runs it, 'b' is
// bad, 'd' drops, 'n' is not deterministic, the rest comes back with every byte one higher.
struct LaneWorld {
  std::atomic<int> calls{0};
  std::atomic<int> deaths{0};
  std::atomic<int> kills_from_outside{0};  // that still come
  std::mutex mutex;
  std::multiset<size_t> sizes;  // of calls
  std::set<uint64_t> slabs;     // by inode
  std::shared_future<void> gate;
};

// Opens the memory by its name, as another process would.
class FakeCaller final : public TransformRunner {
 public:
  explicit FakeCaller(LaneWorld* world) : world_(world) {}
  Status ready() override { return {}; }

  Result<TransformAnswer> run(const TextRows& rows) override {
    if (world_->gate.valid()) world_->gate.wait();
    ++world_->calls;
    {
      const std::lock_guard lock(world_->mutex);
      world_->sizes.insert(rows.rows());
      world_->slabs.insert(number_after(rows.row(0), "inode"));
    }
    if (world_->kills_from_outside.fetch_sub(1) > 0) return died("signal 9");
    TransformAnswer answer;
    for (size_t i = 0; i < rows.rows(); ++i) {
      OVERLORD_TRY(const TransformedAs kind, call(rows.row(i)));
      const std::string text = kind == TransformedAs::kDropped ? ""
                               : kind == TransformedAs::kBad   ? "raised ValueError"
                                                               : "made";
      answer.kinds.push_back(static_cast<uint8_t>(kind));
      answer.sizes.push_back(static_cast<uint32_t>(text.size()));
      answer.text += text;
    }
    return answer;
  }

 private:
  Status died(const std::string& how) {
    ++world_->deaths;
    return {Code::kUnavailable, "its worker closed its output; its end: " + how};
  }

  Result<TransformedAs> call(std::string_view told) {
    const int file = open(text_after(told, "slab").c_str(), O_RDWR | O_CLOEXEC);
    struct stat found = {};
    EXPECT_EQ(fstat(file, &found), 0);
    EXPECT_EQ(found.st_ino, number_after(told, "inode"));
    const size_t size = number_after(told, "size");
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT_NE(memory, MAP_FAILED);
    close(file);
    const auto* given = static_cast<const char*>(memory) + number_after(told, "given");
    auto* made = static_cast<char*>(memory) + number_after(told, "made");
    const size_t bytes = std::stoull(std::string(told.substr(told.find("\"shape\":[") + 9)));
    const char first = given[0];
    const int add = first == 'n' ? world_->calls.load() : 1;
    for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<char>(given[i] + add);
    munmap(memory, size);
    if (first == 'x') return died("exit status 3");
    if (first == 'b') return TransformedAs::kBad;
    return first == 'd' ? TransformedAs::kDropped : TransformedAs::kText;
  }

  LaneWorld* world_;
};

struct Lane {
  explicit Lane(TransformPoolOptions options = {}) {
    options.function = "mod:fn";
    options.make_runner = [this] { return std::make_unique<FakeCaller>(&world); };
    lane = MediaLane::make(std::move(options)).value();
  }

  struct Asked {
    runtime::Buffer made;
    std::future<Result<int64_t>> done;
    std::string text() const { return {made.data.get(), made.size}; }
  };

  Asked ask(const std::string& text, uint64_t key, runtime::CancelToken cancel = {}) {
    auto pool = runtime::BufferPool::make(0);
    FunctionItem item{key, {"f", model::Element::kU8, {}}, {}, runtime::Bytes::copy_of(text), {}};
    item.shape.rows = static_cast<uint32_t>(text.size());
    item.made = pool->acquire(text.size());
    item.made.size = text.size();
    auto promise = std::make_shared<std::promise<Result<int64_t>>>();
    Asked asked{item.made, promise->get_future()};
    lane->apply(std::move(item), cancel,
                [promise](Result<int64_t> got) { promise->set_value(std::move(got)); });
    return asked;
  }

  std::vector<Asked> ask_all(const std::vector<std::string>& texts) {
    std::vector<Asked> all;
    for (size_t i = 0; i < texts.size(); ++i) all.push_back(ask(texts[i], i));
    return all;
  }

  LaneWorld world;
  std::unique_ptr<MediaLane> lane;
};

std::string made_of(std::string text) {
  for (char& byte : text) byte = static_cast<char>(byte + 1);
  return text;
}

std::vector<std::string> many(size_t count) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) texts.push_back("row " + std::string(i * 997, 'p'));
  return texts;
}

TEST(MediaLane, EveryItemComesBackWhoeverRunsIt) {
  for (const size_t workers : {1u, 3u}) {
    for (const size_t batch : {1u, 7u, 1000u}) {
      TransformPoolOptions options;
      options.workers = workers;
      options.batch_rows = batch;
      options.check_every = 1;
      Lane lane(options);
      const std::vector<std::string> texts = many(100);
      std::vector<Lane::Asked> all = lane.ask_all(texts);
      for (size_t i = 0; i < texts.size(); ++i) {
        const Result<int64_t> got = all[i].done.get();
        ASSERT_TRUE(got.ok()) << got.status().message();
        EXPECT_EQ(all[i].text(), made_of(texts[i])) << i;
      }
      EXPECT_GT(lane.lane->stats().checked, 0u);
    }
  }
}

TEST(MediaLane, WhatWaitsIsGivenTogether) {
  std::promise<void> gate;
  TransformPoolOptions options;
  options.batch_rows = 8;
  Lane lane(options);
  lane.world.gate = gate.get_future().share();
  std::vector<Lane::Asked> all = lane.ask_all(many(20));  // the first one is on its way alone
  gate.set_value();
  for (Lane::Asked& asked : all) ASSERT_TRUE(asked.done.get().ok());
  EXPECT_EQ(lane.world.sizes, (std::multiset<size_t>{1, 3, 8, 8}));
}

TEST(MediaLane, WhatRaisesOrIsDroppedIsThatItemAlone) {
  Lane lane;
  std::vector<Lane::Asked> all = lane.ask_all({"a", "bad", "drop", "z"});
  EXPECT_TRUE(all[0].done.get().ok());
  const Status bad = all[1].done.get().status();
  EXPECT_EQ(bad.code(), Code::kBadData);
  EXPECT_EQ(bad.message(), "raised ValueError");
  EXPECT_EQ(all[2].done.get().status().message(), "dropped by transform mod:fn");
  EXPECT_TRUE(all[3].done.get().ok());
  EXPECT_EQ(all[3].text(), made_of("z"));
}

TEST(MediaLane, WhatKillsIsFoundAndNeverGivenAgain) {
  std::promise<void> gate;
  TransformPoolOptions options;
  options.batch_rows = 64;
  Lane lane(options);
  lane.world.gate = gate.get_future().share();
  std::vector<std::string> texts = many(32);
  texts[17] = "x";
  std::vector<Lane::Asked> all = lane.ask_all(texts);
  gate.set_value();
  for (size_t i = 0; i < texts.size(); ++i) {
    const Result<int64_t> got = all[i].done.get();
    EXPECT_EQ(got.ok(), i != 17) << i;
    if (i == 17) {
      EXPECT_EQ(got.status().code(), Code::kBadData);
      EXPECT_NE(got.status().message().find("exit status 3"), std::string::npos);
    } else {
      EXPECT_EQ(all[i].text(), made_of(texts[i]));
    }
  }
  EXPECT_GT(lane.world.slabs.size(), 1u) << "whoever died may hold the old memory";
  const int calls = lane.world.calls;
  const Status again = lane.ask("x", 17).done.get().status();
  EXPECT_EQ(again.code(), Code::kBadData);
  EXPECT_EQ(lane.world.calls, calls);
}

TEST(MediaLane, ACallThatWasKilledFromOutsideIsMadeAgain) {
  Lane lane;
  lane.world.kills_from_outside = 1;
  Lane::Asked asked = lane.ask("one", 1);
  EXPECT_TRUE(asked.done.get().ok());
  EXPECT_EQ(asked.text(), made_of("one"));
  EXPECT_EQ(lane.world.deaths, 1);
}

TEST(MediaLane, WhereManyPlanADeathDecidesNothing) {
  TransformPoolOptions options;
  options.may_decide = false;
  Lane lane(options);
  const Status status = lane.ask("x", 1).done.get().status();
  EXPECT_EQ(status.code(), Code::kUserFunction);
  EXPECT_NE(status.message().find("one planner"), std::string::npos);
}

TEST(MediaLane, AnotherArrayTheSecondTimeIsNamed) {
  TransformPoolOptions options;
  options.check_every = 1;
  Lane lane(options);
  const Status status = lane.ask("n", 1).done.get().status();
  EXPECT_EQ(status.code(), Code::kUserFunction);
  EXPECT_NE(status.message().find("for the same item it gave an array and then"), std::string::npos)
      << status.message();
}

TEST(MediaLane, WhatIsCancelledOrLeftIsAnswered) {
  std::promise<void> gate;
  std::vector<Lane::Asked> all;
  Lane::Asked withdrawn;
  {
    TransformPoolOptions options;
    options.batch_rows = 2;
    Lane lane(options);
    lane.world.gate = gate.get_future().share();
    all.push_back(lane.ask("first", 0));  // holds the seat
    runtime::CancelToken cancel;
    withdrawn = lane.ask("second", 1, cancel);
    cancel.cancel();
    all.push_back(lane.ask("third", 2));
    gate.set_value();
    EXPECT_TRUE(all[1].done.get().ok());
    EXPECT_EQ(withdrawn.done.get().status().code(), Code::kCancelled);
    for (int i = 0; i < 100; ++i) all.push_back(lane.ask("left", 3));
  }
  for (size_t i = 2; i < all.size(); ++i) {
    const Result<int64_t> got = all[i].done.get();
    EXPECT_TRUE(got.ok() || got.status().code() == Code::kCancelled);
  }
}

}  // namespace
}  // namespace overlord::workers
