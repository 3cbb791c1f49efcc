// Hybrid data parallelism on long-tail steps of 32 M tokens over 1,024 ranks: how close to the
// bound, and whether the cost model ranks the methods as ByteScale published.
#include <gtest/gtest.h>

#include "overlord/plan/hdp.h"
#include "overlord/plan/long_tail_test.h"

namespace overlord::plan {
namespace {

constexpr uint64_t kStepTokens = 32u << 20;

HdpProblem problem_of(const char* model, const std::vector<uint32_t>& lengths, uint32_t context) {
  HdpProblem problem;
  problem.model = *h200_model(model);
  problem.lengths = lengths;
  problem.ranks = 1024;
  problem.context = context;
  return problem;
}

int64_t time_of(HdpProblem problem, HdpMethod method, bool offload) {
  problem.method = method;
  problem.offload = offload;
  const auto plan = plan_hdp(problem);
  EXPECT_TRUE(plan.ok() && check_hdp(*plan, problem).ok());
  return plan->makespan_ns;
}

TEST(HdpWorkload, WithinThreePercentOfTheBound) {
  for (const char* model : {"llama12b", "mixtral8x7b", "bytescale7b"}) {
    for (const uint32_t context : {256u << 10, 512u << 10, 1u << 20, 2u << 20}) {
      for (uint64_t seed = 0; seed < 3; ++seed) {
        const auto lengths = long_tail(seed, kStepTokens, context);
        const HdpProblem problem = problem_of(model, lengths, context);
        const auto plan = plan_hdp(problem);
        ASSERT_TRUE(check_hdp(*plan, problem).ok());
        EXPECT_LE(plan->gap_ppm, 30'000) << model << " " << context << " seed " << seed;
      }
    }
  }
}

TEST(HdpWorkload, OddNumbersOfRanksAndPipelines) {
  const auto lengths = long_tail(5, kStepTokens, 1u << 20);
  HdpProblem problem = problem_of("mixtral8x7b", lengths, 1u << 20);
  problem.ranks = 1531;
  problem.align = 64;
  const auto plan = plan_hdp(problem);
  ASSERT_TRUE(check_hdp(*plan, problem).ok());
  EXPECT_LE(plan->gap_ppm, 30'000);
  problem.stages = 4;
  problem.balance = HdpBalance::kPp;
  const int64_t ours = time_of(problem, HdpMethod::kSearch, true);
  EXPECT_LT(ours, time_of(problem, HdpMethod::kBuckets, true));
  EXPECT_LT(ours, time_of(problem, HdpMethod::kBuckets, false));
}

// Figure 20 of ByteScale: dynamic groups 1.59x, with offloading 2.01x, with balance 3.69x, on 2 M
// contexts and 1,024 ranks. The order must come out; the sums over steps come near.
TEST(HdpWorkload, CostModelGivesByteScalesAblationOrder) {
  const uint32_t context = 2u << 20;
  int64_t fixed_degree = 0;
  int64_t groups = 0;
  int64_t offload = 0;
  int64_t balance = 0;
  int64_t search = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const auto lengths = long_tail(seed, kStepTokens, context);
    const HdpProblem problem = problem_of("bytescale7b", lengths, context);
    fixed_degree += time_of(problem, HdpMethod::kStatic, false);
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
}  // namespace overlord::plan
