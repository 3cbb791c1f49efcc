#include "overlord/plan/balance/balance_vector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "overlord/base/rng.h"

namespace overlord::plan {
namespace {

std::vector<int64_t> made_up_kinds(uint64_t key, size_t count, int64_t most) {
  std::vector<int64_t> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<int64_t>(uniform_below(key, i, 0, static_cast<uint64_t>(most) + 1));
  }
  return values;
}

void check_answer(const VectorProblem& problem, const VectorBalanced& out) {
  ASSERT_EQ(out.kinds.size(), problem.costs.size());
  std::vector<uint32_t> left, counts(problem.bins);
  std::vector<int64_t> sizes(problem.bins);
  for (uint32_t atom = 0; atom < out.bin_of.size(); ++atom) {
    if (out.bin_of[atom] == kNoBin) {
      left.push_back(atom);
      continue;
    }
    ++counts[out.bin_of[atom]];
    if (!problem.sizes.empty()) sizes[out.bin_of[atom]] += problem.sizes[atom];
  }
  EXPECT_EQ(left, out.left);
  for (uint32_t bin = 0; bin < problem.bins; ++bin) {
    if (problem.count_limit > 0) {
      EXPECT_LE(counts[bin], problem.count_limit);
    }
    if (problem.size_limit > 0) {
      EXPECT_LE(sizes[bin], problem.size_limit);
    }
  }
  for (size_t kind = 0; kind < problem.costs.size(); ++kind) {
    std::vector<int64_t> loads(problem.bins);
    int64_t total = 0;
    for (uint32_t atom = 0; atom < out.bin_of.size(); ++atom) {
      if (out.bin_of[atom] == kNoBin) continue;
      loads[out.bin_of[atom]] += problem.costs[kind][atom];
      total += problem.costs[kind][atom];
    }
    EXPECT_EQ(out.kinds[kind].max_load, *std::max_element(loads.begin(), loads.end()));
    EXPECT_EQ(out.kinds[kind].min_load, *std::min_element(loads.begin(), loads.end()));
    EXPECT_EQ(out.kinds[kind].total, total);
    EXPECT_LE(out.kinds[kind].bound.load, out.kinds[kind].max_load);
  }
}

TEST(BalanceVector, SmallProblemsAgainstAllPlacements) {
  VectorBalancer balancer;
  int64_t ours = 0, best_sum = 0;
  for (uint64_t trial = 0; trial < 150; ++trial) {
    const uint64_t key = derive_key(1, "vector/small", trial);
    const size_t atoms = 1 + uniform_below(key, 0, 1, 8);
    const auto one = made_up_kinds(key, atoms, 60),
               two = made_up_kinds(derive_key(key, "two"), atoms, 60);
    const std::span<const int64_t> costs[] = {one, two};
    VectorProblem problem;
    problem.costs = costs;
    problem.bins = static_cast<uint32_t>(1 + uniform_below(key, 0, 2, 3));
    const auto out = balancer.vector_lpt(problem);
    ASSERT_TRUE(out.ok());
    check_answer(problem, *out);
    ASSERT_TRUE(out->left.empty());

    // Per mille of the bound, of the kind that is worse off.
    const auto ratio = [&](int64_t a, int64_t b) {
      return std::max(a * 1000 / std::max<int64_t>(out->kinds[0].bound.load, 1),
                      b * 1000 / std::max<int64_t>(out->kinds[1].bound.load, 1));
    };
    std::vector<int64_t> a(problem.bins), b(problem.bins);
    int64_t best = std::numeric_limits<int64_t>::max(), best_a = best, best_b = best;
    const std::function<void(size_t)> go = [&](size_t atom) {
      if (atom == atoms) {
        const int64_t most_a = *std::max_element(a.begin(), a.end());
        const int64_t most_b = *std::max_element(b.begin(), b.end());
        best = std::min(best, ratio(most_a, most_b));
        best_a = std::min(best_a, most_a);
        best_b = std::min(best_b, most_b);
        return;
      }
      for (uint32_t bin = 0; bin < problem.bins; ++bin) {
        a[bin] += one[atom], b[bin] += two[atom];
        go(atom + 1);
        a[bin] -= one[atom], b[bin] -= two[atom];
      }
    };
    go(0);
    ASSERT_LE(out->kinds[0].bound.load, best_a);
    ASSERT_LE(out->kinds[1].bound.load, best_b);
    const int64_t found = ratio(out->kinds[0].max_load, out->kinds[1].max_load);
    ASSERT_GE(found, best);
    ours += found;
    best_sum += best;
  }
  EXPECT_LE(ours * 100, best_sum * 106);
}

TEST(BalanceVector, SpreadsBothKindsAtOnce) {
  // Half of the samples have images; text and image costs are unrelated.
  const uint64_t key = derive_key(2, "vector/both");
  auto text = made_up_kinds(key, 2048, 4000),
       image = made_up_kinds(derive_key(key, "image"), 2048, 9000);
  for (size_t i = 0; i < image.size(); i += 2) image[i] = 0;
  const std::span<const int64_t> costs[] = {image, text};
  VectorProblem problem;
  problem.costs = costs;
  problem.bins = 64;
  const auto out = VectorBalancer().vector_lpt(problem);
  ASSERT_TRUE(out.ok());
  check_answer(problem, *out);
  for (const KindOfLoad& kind : out->kinds) {
    EXPECT_LE((kind.max_load - kind.bound.load) * 200, kind.bound.load);  // within half a percent
  }
  const auto again = VectorBalancer().vector_lpt(problem);
  EXPECT_EQ(again->bin_of, out->bin_of);
}

TEST(BalanceVector, OneKindIsBalancedLikeAnyOther) {
  const auto costs = made_up_kinds(derive_key(3, "vector/one"), 500, 4000);
  const std::span<const int64_t> kinds[] = {costs};
  VectorProblem problem;
  problem.costs = kinds;
  problem.bins = 16;
  const auto out = VectorBalancer().vector_lpt(problem);
  BalanceProblem plain;
  plain.costs = costs;
  plain.bins = 16;
  const auto lpt = Balancer().run(BalanceMethod::kLpt, plain);
  EXPECT_LE(out->kinds[0].max_load, lpt->max_load);
  EXPECT_EQ(out->kinds[0].bound.load, lpt->lower_bound);
}

TEST(BalanceVector, LimitsHoldAndEdgesAreAnswered) {
  const auto one = made_up_kinds(derive_key(4, "vector/a"), 60, 90);
  const auto two = made_up_kinds(derive_key(4, "vector/b"), 60, 90);
  const std::vector<int64_t> sizes(60, 10), zeros(60, 0), none;
  const std::span<const int64_t> costs[] = {one, two, zeros};
  VectorProblem problem;
  problem.costs = costs;
  problem.sizes = sizes;
  problem.bins = 6;
  problem.size_limit = 100;
  problem.count_limit = 10;
  VectorBalancer balancer;
  auto out = balancer.vector_lpt(problem);
  ASSERT_TRUE(out.ok());
  check_answer(problem, *out);
  EXPECT_TRUE(out->left.empty());  // ten in each bin, exactly
  problem.size_limit = 55;
  out = balancer.vector_lpt(problem);
  check_answer(problem, *out);
  EXPECT_EQ(out->left.size(), 30u);
  problem = {};
  const std::span<const int64_t> nothing[] = {none, none};
  problem.costs = nothing;
  problem.bins = 3;
  out = balancer.vector_lpt(problem);
  ASSERT_TRUE(out.ok());
  check_answer(problem, *out);

  const std::vector<int64_t> huge(60, ((int64_t{1} << 62) - 1) / 60);
  const std::span<const int64_t> large[] = {huge, one};
  problem.costs = large;
  out = balancer.vector_lpt(problem);
  ASSERT_TRUE(out.ok());
  check_answer(problem, *out);
}

TEST(BalanceVector, RefusalsNameTheKind) {
  const std::vector<int64_t> two = {1, 2}, three = {1, 2, 3}, bad = {1, -2};
  const auto message = [](std::span<const std::span<const int64_t>> costs, uint32_t bins) {
    VectorProblem problem;
    problem.costs = costs;
    problem.bins = bins;
    return VectorBalancer().vector_lpt(problem).status().message();
  };
  const std::span<const int64_t> uneven[] = {two, three}, negative[] = {two, bad}, fine[] = {two};
  EXPECT_NE(message({}, 1).find("without any kind"), std::string::npos);
  EXPECT_NE(message(uneven, 1).find("kind 1: 3"), std::string::npos);
  EXPECT_NE(message(negative, 1).find("kind 1"), std::string::npos);
  EXPECT_NE(message(negative, 1).find("cost 1 is negative: -2"), std::string::npos);
  EXPECT_NE(message(fine, 0).find("bins: 0"), std::string::npos);
}

}  // namespace
}  // namespace overlord::plan
