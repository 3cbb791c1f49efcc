// Hybrid data parallelism on long-tail steps of 32 M tokens over 1,024 ranks: how close to the
// bound.
#include <gtest/gtest.h>

#include "overlord/plan/hybrid/hdp.h"
#include "overlord/plan/select/long_tail_test.h"

namespace overlord::plan {
namespace {

constexpr uint64_t kStepTokens = 32u << 20;

HdpProblem problem_of(const char* model, const std::vector<uint32_t>& lengths) {
  HdpProblem problem;
  problem.model = *h200_model(model);
  problem.lengths = lengths;
  problem.ranks = 1024;
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
        const HdpProblem problem = problem_of(model, lengths);
        const auto plan = plan_hdp(problem);
        ASSERT_TRUE(check_hdp(*plan, problem).ok());
        EXPECT_LE(plan->gap_ppm, 30'000) << model << " " << context << " seed " << seed;
      }
    }
  }
}

TEST(HdpWorkload, OddNumbersOfRanksAndPipelines) {
  const auto lengths = long_tail(5, kStepTokens, 1u << 20);
  HdpProblem problem = problem_of("mixtral8x7b", lengths);
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

}  // namespace
}  // namespace overlord::plan
