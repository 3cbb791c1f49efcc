// What a Cluster is tested with (runtime/cluster.h has the contract). A filling of the seam joins
// the suite by a ClusterUnderTest of its own; the name of a group says how it behaves:
//   stays-*  lives until it is killed
//   ends-*   ends well by itself, soon
//   fails-*  says "cannot open a.parquet" and ends badly by itself, soon
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "overlord/base/rng.h"
#include "overlord/roles/keeper/supervisor.h"
#include "overlord/runtime/cluster.h"

namespace overlord::runtime {

class ClusterUnderTest {
 public:
  virtual ~ClusterUnderTest() = default;
  virtual Cluster& cluster() = 0;
  // Lets time pass until `done` says so; false: it did not within any reasonable time.
  virtual bool until(const std::function<bool()>& done) = 0;
  // Groups that are really there, whatever the cluster says of them.
  virtual size_t alive() = 0;
  // Destroys the cluster without stopping it first; alive() still works.
  virtual void destroy() = 0;
  // Whether other threads may call the cluster.
  virtual bool threaded() const { return true; }
};

// In real time.
inline bool wait_until(const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

struct ClusterFilling {
  std::string name;
  std::function<std::unique_ptr<ClusterUnderTest>()> make;
};

template <typename T>
ClusterFilling filling(std::string name) {
  return {std::move(name), [] { return std::make_unique<T>(); }};
}

// --- The suite ----------------------------------------------------------------------------------

inline GroupPlacement group(const std::string& name, uint32_t generation = 1) {
  return {name, generation};
}

class ClusterConformance : public ::testing::TestWithParam<ClusterFilling> {
 protected:
  void SetUp() override {
    under_test_ = GetParam().make();
    cluster().watch([this](const GroupEnd& end) {
      const std::lock_guard lock(mutex_);
      EXPECT_NE(caller_, std::this_thread::get_id()) << "told from inside a call";
      ends_.push_back(end);
      if (also_) also_(end);
    });
  }
  void TearDown() override {
    under_test_->destroy();
    EXPECT_EQ(under_test_->alive(), 0u) << "something is left";
  }

  Cluster& cluster() { return under_test_->cluster(); }
  Status place(const std::string& name, uint32_t generation = 1) {
    return inside([&] { return cluster().place(group(name, generation)); });
  }
  void kill(const std::string& name) {
    const Status done = inside([&]() -> Status {
      cluster().kill(name);
      return {};
    });
    EXPECT_TRUE(done.ok());
  }
  // In a simulated world there is one thread for all: it must not hear of an end in a call.
  Status inside(const std::function<Status()>& call) {
    {
      const std::lock_guard lock(mutex_);
      caller_ = std::this_thread::get_id();
    }
    Status status = call();
    const std::lock_guard lock(mutex_);
    caller_ = {};
    return status;
  }
  std::vector<GroupEnd> ends() {
    const std::lock_guard lock(mutex_);
    return ends_;
  }
  bool until_ends(size_t count) {
    return under_test_->until([&] { return ends().size() >= count; });
  }

  std::unique_ptr<ClusterUnderTest> under_test_;
  std::recursive_mutex mutex_;
  std::thread::id caller_;
  std::vector<GroupEnd> ends_;
  std::function<void(const GroupEnd&)> also_;  // called with the lock held
};

TEST_P(ClusterConformance, TellsHowAGroupEnded) {
  ASSERT_TRUE(place("fails-0").ok());
  ASSERT_TRUE(until_ends(1));
  EXPECT_EQ(ends()[0].name, "fails-0");
  EXPECT_EQ(ends()[0].generation, 1u);
  EXPECT_EQ(ends()[0].how, "exit status 3");
  EXPECT_EQ(ends()[0].last_words, "cannot open a.parquet");
  EXPECT_TRUE(under_test_->until([&] { return cluster().placed().empty(); }));
}

TEST_P(ClusterConformance, AKillIsAnEndAndToldOnce) {
  ASSERT_TRUE(place("stays-0", 4).ok());
  ASSERT_TRUE(place("stays-1").ok());
  EXPECT_EQ(cluster().placed().size(), 2u);
  kill("stays-0");
  kill("stays-0");
  kill("nobody");
  ASSERT_TRUE(until_ends(1));
  EXPECT_EQ(ends()[0].name, "stays-0");
  EXPECT_EQ(ends()[0].generation, 4u);
  ASSERT_EQ(cluster().placed().size(), 1u);
  EXPECT_EQ(cluster().placed()[0].name, "stays-1");
  ASSERT_TRUE(place("ends-0").ok());
  ASSERT_TRUE(until_ends(2));
  EXPECT_EQ(ends()[1].name, "ends-0") << "the kill was told twice";
}

TEST_P(ClusterConformance, ANameIsPlacedAgainAfterItsEnd) {
  ASSERT_TRUE(place("stays-0").ok());
  EXPECT_FALSE(place("stays-0", 2).ok()) << "it still lives";
  kill("stays-0");
  ASSERT_TRUE(until_ends(1));
  ASSERT_TRUE(place("stays-0", 2).ok());
  ASSERT_EQ(cluster().placed().size(), 1u);
  EXPECT_EQ(cluster().placed()[0].generation, 2u);
  kill("stays-0");
  ASSERT_TRUE(until_ends(2));
  EXPECT_EQ(ends()[1].generation, 2u);
}

TEST_P(ClusterConformance, MayBeAskedFromInsideAnEnd) {
  also_ = [this](const GroupEnd& end) {
    if (end.generation < 5) {
      EXPECT_TRUE(cluster().place(group(end.name, end.generation + 1)).ok());
    }
  };
  ASSERT_TRUE(place("ends-0").ok());
  ASSERT_TRUE(until_ends(5));
  EXPECT_EQ(ends()[4].generation, 5u);
}

TEST_P(ClusterConformance, KeepsWhatASupervisorWantsKept) {
  keeper::Supervisor supervisor({{"stays-0", 1, {}}, {"fails-0", 1, {}}},
                                {.restarts_allowed = 3, .failed_starts_allowed = 3});
  Status gave_up;
  also_ = [&](const GroupEnd& end) {
    const keeper::Supervisor::Decision decision = supervisor.ended(end, 0);
    if (decision.restart) {
      EXPECT_TRUE(cluster().place(group(end.name, decision.restart->generation)).ok());
    }
    if (!decision.give_up.ok()) gave_up = decision.give_up;
  };
  for (const protocol::ProcessRoles& wanted : supervisor.groups()) {
    ASSERT_TRUE(place(wanted.name).ok());
  }
  ASSERT_TRUE(until_ends(4));
  kill("stays-0");
  ASSERT_TRUE(until_ends(5));
  const std::lock_guard lock(mutex_);
  EXPECT_NE(gave_up.message().find("exit status 3: cannot open a.parquet"), std::string::npos);
  ASSERT_EQ(cluster().placed().size(), 1u);
  EXPECT_EQ(cluster().placed()[0].name, "stays-0");
  EXPECT_EQ(cluster().placed()[0].generation, 2u);
}

TEST_P(ClusterConformance, NothingIsLeftOrToldAfterStop) {
  for (const char* name : {"stays-0", "stays-1", "ends-0", "fails-0"}) {
    ASSERT_TRUE(place(name).ok());
  }
  kill("stays-1");
  cluster().stop();
  const size_t told = ends().size();
  EXPECT_EQ(under_test_->alive(), 0u);
  EXPECT_TRUE(cluster().placed().empty());
  EXPECT_FALSE(place("stays-2").ok());
  cluster().kill("stays-0");
  cluster().stop();
  if (!under_test_->threaded()) under_test_->until([] { return false; });  // all that may happen
  EXPECT_EQ(ends().size(), told);
}

TEST_P(ClusterConformance, EveryGenerationEndsOnceInAStorm) {
  uint64_t draws = 0;
  const auto below = [&](uint64_t limit) { return uniform_below(3, ++draws, 0, limit); };
  std::map<std::string, uint32_t> generations;
  size_t placed = 0;
  const auto living = [&] {
    std::set<std::string> names;
    for (const GroupPlacement& one : cluster().placed()) names.insert(one.name);
    return names;
  };
  for (int i = 0; i < 200; ++i) {
    const std::string kind = below(3) == 0 ? "ends-" : "stays-";
    const std::string name = kind + std::to_string(below(4));
    if (living().contains(name)) {
      kill(name);
    } else if (under_test_->until([&] { return ends().size() + living().size() == placed; })) {
      ASSERT_TRUE(place(name, ++generations[name]).ok());
      ++placed;
    }
  }
  for (const std::string& name : living()) kill(name);
  ASSERT_TRUE(until_ends(placed));
  std::set<std::pair<std::string, uint32_t>> told;
  for (const GroupEnd& end : ends()) {
    EXPECT_TRUE(told.emplace(end.name, end.generation).second) << end.name << " is told twice";
  }
  EXPECT_EQ(told.size(), placed);
}

TEST_P(ClusterConformance, StopWinsAgainstAPlaceThatIsUnderWay) {
  if (!under_test_->threaded()) GTEST_SKIP() << "one thread";
  for (int i = 0; i < 40; ++i) {
    const std::unique_ptr<ClusterUnderTest> other = GetParam().make();
    other->cluster().watch([](const GroupEnd&) {});
    std::thread placing([&] {
      for (int n = 0; other->cluster().place(group("stays-" + std::to_string(n))).ok(); ++n) {
      }
    });
    EXPECT_TRUE(other->until([&] { return !other->cluster().placed().empty(); }));
    other->cluster().stop();
    placing.join();
    EXPECT_EQ(other->alive(), 0u);
  }
}

}  // namespace overlord::runtime
