#include "overlord/plan/hybrid/hdp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "overlord/base/rng.h"
#include "overlord/plan/select/long_tail_test.h"

namespace overlord::plan {
namespace {

constexpr HdpMethod kMethods[] = {HdpMethod::kNaive, HdpMethod::kBuckets, HdpMethod::kSearch};

HdpModel small_model() {
  HdpModel model;
  model.square_fs = 90'000;
  model.token_fs = 2'000'000'000;
  model.fixed_fs = 1'000'000'000;
  model.activation_token_bytes = 1000;
  model.activation_fixed_bytes = 5000;
  model.layers = 8;
  model.capacity = 256;
  model.to_host_per_s = 1'000'000'000;
  model.from_host_per_s = 1'000'000'000;
  model.ring_token_bytes = 100;
  model.ring_per_s = 1'000'000'000;
  model.ring_hop_ns = 100;
  return model;
}

TEST(HdpSlices, CoverEachTokenOnceAndAreEven) {
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    const uint64_t key = derive_key(11, "slices", trial);
    const auto members = static_cast<uint32_t>(1 + uniform_below(key, 0, 0, 70));
    const auto align = static_cast<uint32_t>(1 + uniform_below(key, 1, 0, 9));
    const auto length = static_cast<uint32_t>(1 + uniform_below(key, 2, 0, 5000));
    std::vector<HdpChunk> chunks(2 * members);
    uint32_t most_held = 0;
    uint32_t least_held = length;
    for (uint32_t i = 0; i < members; ++i) {
      const HdpSlice slice = slice_of(length, members, i, align);
      chunks[i] = slice.low;
      chunks[2 * members - 1 - i] = slice.high;
      most_held = std::max(most_held, slice.low.count + slice.high.count);
      least_held = std::min(least_held, slice.low.count + slice.high.count);
    }
    uint32_t next = 0;
    for (const HdpChunk& chunk : chunks) {
      if (chunk.count == 0) continue;
      ASSERT_EQ(chunk.first, next);
      next += chunk.count;
    }
    ASSERT_EQ(next, length);
    const auto [low, high] = std::ranges::minmax_element(chunks, {}, &HdpChunk::count);
    ASSERT_LE(high->count - low->count, align);
    ASSERT_LE(most_held, largest_share(length, members, align));
    ASSERT_LE(most_held - least_held, 2 * align - 1);  // one unit, and the end that is cut short
  }
}

TEST(HdpSlices, HeadAndTailGoToTheSameMember) {
  const HdpSlice first = slice_of(80, 4, 0, 1);
  EXPECT_EQ(first.low.first, 0u);
  EXPECT_EQ(first.high.first, 70u);
  const HdpSlice last = slice_of(80, 4, 3, 1);
  EXPECT_EQ(last.low.first, 30u);
  EXPECT_EQ(last.high.first, 40u);
}

TEST(HdpDegree, IsTheFewestThatFit) {
  for (uint64_t trial = 0; trial < 500; ++trial) {
    const uint64_t key = derive_key(12, "degree", trial);
    HdpProblem problem;
    problem.model = small_model();
    problem.model.host_bytes = static_cast<int64_t>(uniform_below(key, 0, 0, 3) * 2'000'000);
    problem.ranks = 64;
    problem.offload = uniform_below(key, 1, 0, 2) == 1;
    problem.align = static_cast<uint32_t>(1 + uniform_below(key, 2, 0, 16));
    const auto length = static_cast<uint32_t>(1 + uniform_below(key, 3, 0, 30'000));
    const uint32_t limit = problem.offload ? offload_limit(problem.model, length) : 0;
    std::optional<uint32_t> expected;
    for (uint32_t n = 1; n <= problem.ranks && !expected; ++n) {
      const uint32_t share = largest_share(length, n, problem.align);
      if (offload_needed(problem.model, share, limit)) expected = n;
    }
    ASSERT_EQ(least_ranks(problem, length), expected);
    if (!problem.offload && problem.align == 1 && expected) {
      ASSERT_EQ(*expected, (length + 255) / 256);  // not only powers of two
    }
  }
}

TEST(HdpDegree, OffloadFreesRanksOnlyAsFarAsItIsHidden) {
  HdpProblem problem;
  problem.model = *h200_model("llama12b");
  problem.model.host_bytes = 0;
  problem.ranks = 1024;
  const uint32_t length = 1u << 20;
  problem.offload = false;
  EXPECT_EQ(least_ranks(problem, length), 128u);
  problem.offload = true;
  EXPECT_EQ(offload_limit(problem.model, length), 1000u);
  EXPECT_EQ(least_ranks(problem, length), 6u);  // two of 45 layers stay: 128 * 2 / 45
  problem.model.to_host_per_s /= 1000;
  EXPECT_EQ(least_ranks(problem, length), 127u);  // 1 % hidden
  problem.model.layers = 2;                       // nothing can be moved
  EXPECT_EQ(least_ranks(problem, length), 128u);
}

TEST(HdpDegree, OffloadKeepsWithinDeviceAndHost) {
  const HdpModel model = [] {
    HdpModel m = small_model();
    m.host_bytes = 1'000'000;
    return m;
  }();
  for (uint32_t tokens = 1; tokens < 3000; ++tokens) {
    const auto permille = offload_needed(model, tokens, 1000);
    const int64_t act = 1000 * int64_t{tokens} + 5000;
    const int64_t device = 8 * (1000 * 256 + 5000);
    const auto fits = [&](int64_t r) {
      return 2 * act * 1000 + (1000 - r) * 6 * act <= device * 1000 &&
             r * 6 * act <= model.host_bytes * 1000;
    };
    if (tokens <= 256) {
      ASSERT_EQ(permille, 0u);
    } else if (permille) {
      ASSERT_TRUE(fits(*permille)) << tokens;
      ASSERT_FALSE(*permille > 0 && fits(*permille - 1)) << tokens;
    } else {
      for (int64_t r = 0; r <= 1000; ++r) ASSERT_FALSE(fits(r)) << tokens << " " << r;
    }
  }
}

HdpProblem random_problem(uint64_t key, std::vector<uint32_t>* lengths) {
  HdpProblem problem;
  problem.model = small_model();
  problem.ranks = static_cast<uint32_t>(1 + uniform_below(key, 0, 0, 40));
  problem.stages = static_cast<uint32_t>(1 + uniform_below(key, 1, 0, 4));
  problem.offload = uniform_below(key, 2, 0, 2) == 1;
  problem.align = static_cast<uint32_t>(1 + uniform_below(key, 3, 0, 3) * 15);
  problem.balance = uniform_below(key, 4, 0, 2) == 1 ? HdpBalance::kPp : HdpBalance::kDp;
  const uint64_t count = uniform_below(key, 5, 0, 120);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t longest = uniform_below(key, i, 6, 8) == 0 ? 120u * problem.ranks : 300;
    lengths->push_back(static_cast<uint32_t>(1 + uniform_below(key, i, 7, longest)));
  }
  problem.lengths = *lengths;
  return problem;
}

TEST(HdpPlan, EveryMethodGivesAValidPlan) {
  uint32_t planned = 0;
  for (uint64_t trial = 0; trial < 200; ++trial) {
    std::vector<uint32_t> lengths;
    HdpProblem problem = random_problem(derive_key(13, "plan", trial), &lengths);
    for (const HdpMethod method : kMethods) {
      problem.method = method;
      const auto plan = plan_hdp(problem);
      if (!plan.ok()) continue;  // too long for all ranks
      ++planned;
      const Status status = check_hdp(*plan, problem);
      ASSERT_TRUE(status.ok()) << status.message() << " trial " << trial;
      ASSERT_GE(plan->makespan_ns, plan->lower_bound_ns);
      const auto again = plan_hdp(problem);
      ASSERT_EQ(plan->groups.size(), again->groups.size());
      for (size_t i = 0; i < plan->groups.size(); ++i) {
        ASSERT_EQ(plan->groups[i].ranks, again->groups[i].ranks);
        ASSERT_EQ(plan->groups[i].sequences, again->groups[i].sequences);
      }
      if (method == HdpMethod::kSearch || method == HdpMethod::kNaive) {
        for (const HdpGroup& group : plan->groups) {  // short sequences stay whole
          if (group.ranks.size() == 1) continue;
          ASSERT_EQ(group.sequences.size(), 1u);
          ASSERT_GT(lengths[group.sequences[0]], problem.model.capacity);
        }
      }
    }
  }
  EXPECT_GT(planned, 400u);
}

TEST(HdpPlan, SearchIsNeverWorseThanBuckets) {
  for (uint64_t trial = 0; trial < 150; ++trial) {
    std::vector<uint32_t> lengths;
    HdpProblem problem = random_problem(derive_key(14, "better", trial), &lengths);
    problem.balance = problem.stages > 1 ? HdpBalance::kPp : HdpBalance::kDp;
    const auto search = plan_hdp(problem);
    problem.method = HdpMethod::kBuckets;
    const auto buckets = plan_hdp(problem);
    ASSERT_EQ(search.ok(), buckets.ok());
    if (!search.ok()) continue;
    ASSERT_LE(search->makespan_ns, buckets->makespan_ns) << trial;
  }
}

TEST(HdpPlan, CountsOfMicrobatchesMayDifferAndMayBeLimited) {
  const std::vector<uint32_t> lengths = {2000, 256, 256, 256, 256, 256, 256, 200, 100};
  HdpProblem problem;
  problem.model = small_model();
  problem.model.square_fs *= 1000;  // so the long one takes its ranks for long
  problem.lengths = lengths;
  problem.ranks = 10;
  problem.offload = false;
  const auto free = plan_hdp(problem);
  ASSERT_TRUE(free.ok());
  EXPECT_NE(std::ranges::min(free->rank_microbatches), std::ranges::max(free->rank_microbatches));
  problem.ranks = 9;
  problem.max_microbatches = 2;
  const auto limited = plan_hdp(problem);
  ASSERT_TRUE(limited.ok()) << limited.status().message();
  EXPECT_TRUE(check_hdp(*limited, problem).ok());
  EXPECT_LE(std::ranges::max(limited->rank_microbatches), 2u);
  problem.max_microbatches = 1;
  EXPECT_EQ(plan_hdp(problem).status().code(), Code::kInvalidArgument);
}

TEST(HdpPlan, CarriesTheTargetsThatDivideTheLoss) {
  const std::vector<uint32_t> lengths = {700, 100, 50, 50};
  const std::vector<uint32_t> targets = {300, 0, 50, 7};
  HdpProblem problem;
  problem.model = small_model();
  problem.lengths = lengths;
  problem.ranks = 4;
  EXPECT_EQ(plan_hdp(problem)->targets, 900u - 4);
  problem.targets = targets;
  const auto plan = plan_hdp(problem);
  EXPECT_EQ(plan->targets, 357u);
  const auto& sums = plan->microbatch_targets;
  EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), uint64_t{0}), 357u);
}

TEST(HdpPlan, RefusesWhatCannotBe) {
  const std::vector<uint32_t> lengths = {5000};
  HdpProblem problem;
  problem.model = small_model();
  problem.lengths = lengths;
  problem.ranks = 4;
  problem.offload = false;
  for (const HdpMethod method : kMethods) {
    problem.method = method;
    EXPECT_EQ(plan_hdp(problem).status().code(), Code::kInvalidArgument);
  }
  const std::vector<uint32_t> empty_sequence = {0};
  problem.lengths = empty_sequence;
  EXPECT_FALSE(plan_hdp(problem).ok());
  problem.lengths = {};
  EXPECT_TRUE(plan_hdp(problem).ok());  // nothing to do is a plan
  problem.align = 100;
  EXPECT_FALSE(plan_hdp(problem).ok());
  EXPECT_FALSE(h200_model("other").has_value());
}

// The validator refuses each kind of broken plan.
TEST(HdpCheck, FindsWhatIsBroken) {
  const std::vector<uint32_t> lengths = {2000, 1500, 256, 200, 100, 90, 80, 256, 256};
  HdpProblem problem;
  problem.model = small_model();
  problem.lengths = lengths;
  problem.ranks = 8;
  const HdpPlan good = *plan_hdp(problem);
  ASSERT_TRUE(check_hdp(good, problem).ok());
  const auto wide = static_cast<size_t>(
      std::ranges::find_if(good.groups, [](const HdpGroup& g) { return g.ranks.size() > 1; }) -
      good.groups.begin());
  ASSERT_LT(wide, good.groups.size());
  const std::vector<std::function<void(HdpPlan&)>> breaks = {
      [](HdpPlan& p) { p.groups.pop_back(); },
      [](HdpPlan& p) { p.groups.push_back(p.groups.back()); },
      [](HdpPlan& p) { p.groups[0].sequences.push_back(p.groups[1].sequences[0]); },
      [](HdpPlan& p) { p.groups[0].sequences[0] = 99; },
      [&](HdpPlan& p) { p.groups[wide].ranks[0] = p.groups[wide].ranks[1]; },
      [&](HdpPlan& p) { p.groups[wide].ranks[0] = 8; },
      [&](HdpPlan& p) { p.groups[wide].ranks.resize(1); },
      [](HdpPlan& p) { p.groups[0].start_ns -= 1; },
      [](HdpPlan& p) { std::swap(p.groups.front(), p.groups.back()); },
      [](HdpPlan& p) { p.groups[0].microbatch += 1; },
      [](HdpPlan& p) { p.groups[0].cost_ns += 1; },
      [](HdpPlan& p) { p.groups[0].tokens += 1; },
      [](HdpPlan& p) { p.groups[0].targets += 1; },
      [](HdpPlan& p) { p.groups[0].offload_permille = 1001; },
      [](HdpPlan& p) { p.rank_microbatches[0] += 1; },
      [](HdpPlan& p) { p.rank_ns[0] += 1; },
      [](HdpPlan& p) { p.targets += 1; },
      [](HdpPlan& p) { p.microbatch_targets[0] += 1; },
      [](HdpPlan& p) { p.makespan_ns -= 1; },
  };
  for (size_t i = 0; i < breaks.size(); ++i) {
    HdpPlan bad = good;
    breaks[i](bad);
    EXPECT_FALSE(check_hdp(bad, problem).ok()) << i;
  }
}

TEST(HdpBound, IsBelowEveryPlanOfTwoSequences) {
  // All ways to run two long sequences: side by side or one after the other, any degrees.
  for (uint64_t trial = 0; trial < 100; ++trial) {
    const uint64_t key = derive_key(15, "two", trial);
    HdpProblem problem;
    problem.model = small_model();
    problem.ranks = 12;
    const std::vector<uint32_t> lengths = {
        static_cast<uint32_t>(257 + uniform_below(key, 0, 0, 2000)),
        static_cast<uint32_t>(257 + uniform_below(key, 1, 0, 2000))};
    problem.lengths = lengths;
    int64_t best = int64_t{1} << 60;
    const auto cost = [&](uint32_t i, uint32_t n) {
      const uint64_t length = lengths[i];
      return duration_of(problem.model, work_of(problem.model, length, length * length), n);
    };
    for (uint32_t a = *least_ranks(problem, lengths[0]); a <= problem.ranks; ++a) {
      for (uint32_t b = *least_ranks(problem, lengths[1]); b <= problem.ranks; ++b) {
        const bool beside = a + b <= problem.ranks;
        best = std::min(best, beside ? std::max(cost(0, a), cost(1, b)) : cost(0, a) + cost(1, b));
      }
    }
    const auto plan = plan_hdp(problem);
    ASSERT_LE(plan->lower_bound_ns, best);
    ASSERT_GE(plan->makespan_ns, best);
    ASSERT_LE(plan->makespan_ns, best + best / 2);
  }
}

}  // namespace
}  // namespace overlord::plan
