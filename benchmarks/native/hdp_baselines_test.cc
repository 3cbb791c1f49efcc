#include "hdp_baselines.h"

#include <gtest/gtest.h>

#include <vector>

#include "overlord/base/rng.h"
#include "overlord/plan/select/long_tail_test.h"

namespace overlord::bench {
namespace {

using plan::HdpMethod;
using plan::HdpPlan;
using plan::HdpProblem;

constexpr uint64_t kStepTokens = 32u << 20;

int64_t time_of(const HdpProblem& problem, const Result<HdpPlan>& plan) {
  EXPECT_TRUE(plan.ok() && plan::check_hdp(*plan, problem).ok());
  return plan->makespan_ns;
}

int64_t time_of(HdpProblem problem, HdpMethod method, bool offload) {
  problem.method = method;
  problem.offload = offload;
  return time_of(problem, plan::plan_hdp(problem));
}

TEST(HdpBaselines, PlansAreValid) {
  uint32_t planned = 0;
  for (uint64_t trial = 0; trial < 100; ++trial) {
    const uint64_t key = derive_key(13, "baselines", trial);
    HdpProblem problem;
    problem.model = *plan::h200_model("llama12b");
    problem.model.capacity = 256;
    problem.ranks = static_cast<uint32_t>(1 + uniform_below(key, 0, 0, 40));
    problem.align = static_cast<uint32_t>(1 + uniform_below(key, 1, 0, 3) * 15);
    problem.offload = false;
    std::vector<uint32_t> lengths;
    for (uint64_t i = 0; i < uniform_below(key, 2, 0, 120); ++i) {
      const uint64_t longest = uniform_below(key, i, 3, 8) == 0 ? 120u * problem.ranks : 300;
      lengths.push_back(static_cast<uint32_t>(1 + uniform_below(key, i, 4, longest)));
    }
    problem.lengths = lengths;
    for (const auto& plan : {plan_static(problem, 0), plan_powers_of_two(problem)}) {
      if (!plan.ok()) continue;  // a power of two of ranks, or a fixed degree, may not do
      ++planned;
      const Status status = plan::check_hdp(*plan, problem);
      ASSERT_TRUE(status.ok()) << status.message() << " trial " << trial;
    }
  }
  EXPECT_GT(planned, 100u);
}

// Figure 20 of ByteScale: dynamic groups 1.59x, with offloading 2.01x, with balance 3.69x, on 2 M
// contexts and 1,024 ranks. The order must come out; the sums over steps come near.
TEST(HdpBaselines, CostModelGivesByteScalesAblationOrder) {
  const uint32_t context = 2u << 20;
  int64_t fixed_degree = 0;
  int64_t groups = 0;
  int64_t offload = 0;
  int64_t balance = 0;
  int64_t search = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const auto lengths = plan::long_tail(seed, kStepTokens, context);
    HdpProblem problem;
    problem.model = *plan::h200_model("bytescale7b");
    problem.lengths = lengths;
    problem.ranks = 1024;
    problem.offload = false;
    fixed_degree += time_of(problem, plan_static(problem, context));
    groups += time_of(problem, HdpMethod::kNaive, false);
    offload += time_of(problem, HdpMethod::kNaive, true);
    balance += time_of(problem, HdpMethod::kBuckets, true);
    search += time_of(problem, HdpMethod::kSearch, true);
  }
  RecordProperty("groups_permille", static_cast<int>(fixed_degree * 1000 / groups));
  RecordProperty("offload_permille", static_cast<int>(fixed_degree * 1000 / offload));
  RecordProperty("balance_permille", static_cast<int>(fixed_degree * 1000 / balance));
  EXPECT_GT(fixed_degree, groups * 5 / 4);
  EXPECT_GT(groups, offload * 5 / 4);
  EXPECT_GT(offload, balance * 5 / 4);
  EXPECT_GE(balance, search);
}

}  // namespace
}  // namespace overlord::bench
