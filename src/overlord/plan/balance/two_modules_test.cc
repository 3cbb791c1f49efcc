#include "overlord/plan/balance/two_modules.h"

#include <gtest/gtest.h>

#include <set>

#include "overlord/base/rng.h"

namespace overlord::plan {
namespace {

struct Made {
  std::vector<int64_t> costs, bytes;
  std::vector<uint32_t> microbatch_of, backbone_of;
};

Made make_up(uint64_t seed, uint32_t samples, uint32_t microbatches, uint32_t backbones) {
  Made made;
  for (uint32_t i = 0; i < samples; ++i) {
    const bool image = uniform_below(seed, i, 0, 3) > 0;
    made.costs.push_back(image ? 1 + static_cast<int64_t>(uniform_below(seed, i, 1, 5000)) : 0);
    made.bytes.push_back(image ? 8 * made.costs.back() : 0);
    made.microbatch_of.push_back(static_cast<uint32_t>(uniform_below(seed, i, 2, microbatches)));
    made.backbone_of.push_back(static_cast<uint32_t>(uniform_below(seed, i, 3, backbones)));
  }
  return made;
}

TEST(TwoModules, ExchangesAreBijectionsAndConserveBytes) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Made made = make_up(seed, 200, 5, 4);
    const EncoderProblem problem{made.costs, made.microbatch_of, 5, 8, false};
    Balancer balancer;
    const auto layer = place_encoder(model::BalanceMethod::kLptSearch, problem, &balancer);
    ASSERT_TRUE(layer.ok()) << layer.status().message();
    EXPECT_GE(layer->slowest_sum, layer->lower_bound);
    const auto exchanges = make_exchanges(*layer, problem, made.backbone_of, made.bytes);
    std::set<uint32_t> seen;
    int64_t moved = 0;
    for (const Exchange& exchange : exchanges) {
      for (uint32_t i = 0; i < exchange.sent.size(); ++i) {
        EXPECT_TRUE(seen.insert(exchange.sent[i]).second);
        EXPECT_EQ(exchange.received[exchange.permutation[i]], exchange.sent[i]);
        EXPECT_EQ(exchange.inverse[exchange.permutation[i]], i);
      }
      for (const PairBytes& pair : exchange.pairs) moved += pair.bytes;
    }
    int64_t expected = 0;
    for (uint32_t i = 0; i < made.costs.size(); ++i) {
      EXPECT_EQ(seen.contains(i), made.costs[i] > 0);
      EXPECT_EQ(layer->encoder_of[i] == kNoOwner, made.costs[i] == 0);
      expected += made.bytes[i];
    }
    EXPECT_EQ(moved, expected);
  }
}

TEST(TwoModules, ParityGivesEveryEncoderAnImageOrNone) {
  const std::vector<int64_t> costs = {5, 0, 7, 0, 0};
  const std::vector<uint32_t> microbatch_of = {0, 0, 0, 1, 1};
  EncoderProblem problem{costs, microbatch_of, 2, 4, true};
  Balancer balancer;
  const auto layer = place_encoder(model::BalanceMethod::kLpt, problem, &balancer);
  ASSERT_TRUE(layer.ok());
  // Microbatch 0 has two images for four encoders; microbatch 1 has none, so nobody needs one.
  EXPECT_EQ(layer->dummies, (std::vector<Dummy>{{2, 0}, {3, 0}}));
  problem.parity = false;
  EXPECT_TRUE(place_encoder(model::BalanceMethod::kLpt, problem, &balancer)->dummies.empty());
}

TEST(TwoModules, BadProblemsAreNamed) {
  const std::vector<int64_t> costs = {5};
  const std::vector<uint32_t> microbatch_of = {3};
  Balancer balancer;
  const auto layer =
      place_encoder(model::BalanceMethod::kLpt, {costs, microbatch_of, 2, 4, true}, &balancer);
  ASSERT_FALSE(layer.ok());
  EXPECT_NE(layer.status().message().find("microbatch 3 of 2"), std::string::npos);
}

}  // namespace
}  // namespace overlord::plan
