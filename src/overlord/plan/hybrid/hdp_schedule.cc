// ByteScale's two ways to give sequences to ranks: in order of arrival, and by its balance
// scheduler.
#include <algorithm>
#include <numeric>
#include <utility>

#include "overlord/base/check.h"
#include "overlord/plan/hybrid/hdp_items.h"

namespace overlord::plan {
namespace {

constexpr uint32_t kBuckets = 16;
constexpr int64_t kBehindPercent = 5;  // of the latest rank's time: more than this is behind

// A long sequence or a pack, as the schedulers see it: so many ranks for so long.
struct Task {
  std::vector<uint32_t> sequences;
  uint32_t ranks = 1;
  uint32_t longest = 0;
  int64_t cost_ns = 0;
};

std::vector<Task> tasks_of(const HdpProblem& problem, const HdpItems& items) {
  std::vector<Task> tasks;
  for (const HdpLong& item : items.longs) {
    tasks.push_back({{item.sequence},
                     item.least,
                     item.length,
                     duration_of(problem.model, item.work, item.least)});
  }
  for (const HdpPack& pack : items.packs) {
    const HdpWork work = work_of(problem.model, pack.tokens, pack.squares);
    tasks.push_back({pack.sequences, 1, problem.lengths[pack.sequences.front()],
                     duration_of(problem.model, work, 1)});
  }
  return tasks;
}

// Tasks by falling length, cut where each bucket has its share of the work.
std::vector<std::vector<Task>> buckets_of(std::vector<Task> tasks) {
  std::ranges::stable_sort(tasks, std::ranges::greater{}, &Task::longest);
  int64_t total = 0;
  for (const Task& task : tasks) total += task.cost_ns * task.ranks;
  const int64_t share = total / kBuckets + 1;
  std::vector<std::vector<Task>> buckets;
  int64_t filled = share;
  for (Task& task : tasks) {
    if (filled >= share) {
      buckets.emplace_back();
      filled = 0;
    }
    filled += task.cost_ns * task.ranks;
    buckets.back().push_back(std::move(task));
  }
  return buckets;
}

// Ranks that are more than the threshold behind the latest, or all when none is; earliest first.
std::vector<uint32_t> ranks_behind(const RankTimes& times) {
  const int64_t latest = times.latest();
  const int64_t line = latest - latest * kBehindPercent / 100;
  std::vector<uint32_t> ranks;
  for (const bool all : {false, true}) {
    for (uint32_t rank = 0; rank < times.free_ns.size(); ++rank) {
      if (all || times.free_ns[rank] < line) ranks.push_back(rank);
    }
    if (!ranks.empty()) break;
  }
  OVERLORD_CHECK(!ranks.empty(), "somebody is next");
  std::ranges::stable_sort(ranks, {}, [&](uint32_t rank) { return times.free_ns[rank]; });
  return ranks;
}

// Gives each rank that is behind one task, then looks again who is behind.
class Rounds {
 public:
  explicit Rounds(uint32_t ranks) : times_(ranks) {}

  std::vector<uint32_t> run(const Task& task) {
    if (behind_.size() - next_ < task.ranks) {
      behind_ = ranks_behind(times_);
      next_ = 0;
    }
    if (behind_.size() < task.ranks) {  // those that are not behind have to join
      behind_.resize(times_.free_ns.size());
      std::iota(behind_.begin(), behind_.end(), 0u);
      std::ranges::stable_sort(behind_, {}, [&](uint32_t rank) { return times_.free_ns[rank]; });
    }
    OVERLORD_CHECK(task.ranks <= behind_.size() - next_, "a task has its ranks");
    const auto first = behind_.begin() + static_cast<ptrdiff_t>(next_);
    std::vector<uint32_t> ranks(first, first + task.ranks);
    next_ += task.ranks;
    std::ranges::sort(ranks);
    times_.run(ranks, task.cost_ns);
    return ranks;
  }

 private:
  RankTimes times_;
  std::vector<uint32_t> behind_;
  size_t next_ = 0;
};

}  // namespace

std::vector<HdpGroup> naive_groups(const HdpProblem& problem, const HdpItems& items) {
  std::vector<Task> tasks = tasks_of(problem, items);
  std::ranges::stable_sort(tasks, {}, [](const Task& task) { return task.sequences.front(); });
  std::vector<HdpGroup> groups;
  uint32_t next = 0;
  for (Task& task : tasks) {
    std::vector<uint32_t> ranks(task.ranks);
    for (uint32_t& rank : ranks) rank = std::exchange(next, (next + 1) % problem.ranks);
    std::ranges::sort(ranks);
    groups.push_back(bare_group(std::move(ranks), std::move(task.sequences)));
  }
  OVERLORD_CHECK(groups.size() == tasks.size(), "a group for every task");
  return groups;
}

std::vector<HdpGroup> bucket_groups(const HdpProblem& problem, const HdpItems& items) {
  std::vector<std::vector<Task>> buckets = buckets_of(tasks_of(problem, items));
  for (auto& bucket : buckets) std::ranges::reverse(bucket);  // so that the next one is the last
  std::vector<HdpGroup> groups;
  Rounds rounds(problem.ranks);
  size_t turn = 0;
  while (!buckets.empty()) {
    turn %= buckets.size();
    Task task = std::move(buckets[turn].back());
    buckets[turn].pop_back();
    const bool emptied = buckets[turn].empty();
    if (emptied) buckets.erase(buckets.begin() + static_cast<ptrdiff_t>(turn));
    if (problem.balance == HdpBalance::kDp) {
      turn = 0;
    } else if (!emptied) {
      ++turn;
    }
    std::vector<uint32_t> ranks = rounds.run(task);
    groups.push_back(bare_group(std::move(ranks), std::move(task.sequences)));
  }
  return groups;
}

}  // namespace overlord::plan
