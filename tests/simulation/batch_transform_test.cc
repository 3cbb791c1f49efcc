// A user's function over microbatches: however late its answers are and whoever dies meanwhile, the
// stream is the same, slices are cut from what it made, and its failure ends all groups before the
// same step.
#include <gtest/gtest.h>

#include <cstring>

#include "overlord/sim/scenario.h"
#include "simulation/seeds.h"
#include "simulation/storms.h"

namespace overlord::sim {
namespace batch_transform_test {

constexpr uint64_t kSteps = 8;

// Adds a number that follows from the key to every token; fails where it is told to.
class KeyedShift final : public runtime::BatchTransform {
 public:
  KeyedShift(World& world, StepIndex fails_at) : world_(world), fails_at_(fails_at) {}

  void apply(runtime::BatchQuestion question, runtime::BatchDone done) override {
    world_.post_after(world_.dice().delay_ns(5'000'000), [this, question = std::move(question),
                                                          done = std::move(done)] {
      if (question.step >= fails_at_ && question.group == 1) {
        return done(Status(Code::kUserFunction, "batch_transform f, " + question.place()));
      }
      done(answer_to(question));
    });
  }

 private:
  static runtime::BatchAnswer answer_to(const runtime::BatchQuestion& question) {
    runtime::BatchArray tokens = *question.find("tokens");
    EXPECT_EQ(tokens.element, model::Element::kI32);
    auto own = std::make_shared<std::vector<int32_t>>(tokens.view.size_bytes / sizeof(int32_t));
    std::memcpy(own->data(), tokens.view.data, tokens.view.size_bytes);
    for (int32_t& token : *own) token += static_cast<int32_t>(question.key % 1000);
    tokens.view.data = own->data();
    return {{tokens}, own};
  }

  World& world_;
  StepIndex fails_at_;
};

Scenario transformed() {
  Scenario scenario = Scenario::small();
  scenario.spec.max_steps = kSteps;
  scenario.spec.batch_transform.function = "m:f";
  scenario.spec.batch_transform.version = "1";
  scenario.delivery.token_type = model::TokenType::kInt32;
  return scenario;
}

std::unique_ptr<SimCluster> start(const Scenario& scenario, uint64_t seed, const Layout& layout,
                                  StepIndex fails_at = kSteps) {
  const auto job = scenario.open();
  return std::make_unique<SimCluster>(
      job, *scenario.objects, scenario.all_ranks(), scenario.options, host::start_state(*job), seed,
      layout, nullptr,
      [fails_at](World& world) { return std::make_unique<KeyedShift>(world, fails_at); });
}

TEST(BatchTransform, TheStreamIsTheSameHoweverItIsRunAndWhoeverDies) {
  const Scenario scenario = transformed();
  auto calm = start(scenario, 1, {});
  ASSERT_TRUE(calm->run(kSteps));
  ASSERT_FALSE(calm->failure()) << calm->failure()->message();
  uint64_t kills = 0;
  const uint64_t worlds = for_each_seed({25}, [&](uint64_t seed) {
    auto cluster = start(scenario, seed, stormy(seed));
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
    ASSERT_FALSE(cluster->failure()) << cluster->failure()->message();
    EXPECT_EQ(cluster->stream_hash(), calm->stream_hash());
    kills += cluster->sightings().kills;
  });
  if (worlds < 25) return;  // one of them, run again
  EXPECT_GT(kills, worlds) << "it was a storm";
}

// Tokens of a rank's slice of a step, in order.
std::vector<int32_t> tokens_of(SimCluster& cluster, Rank rank) {
  std::vector<int32_t> tokens;
  for (const model::MicrobatchPtr& batch : cluster.delivered(rank).batches) {
    const model::FieldView& view = batch->slab->tokens;
    const auto* values = static_cast<const int32_t*>(view.data);
    tokens.insert(tokens.end(), values, values + view.size_bytes / sizeof(int32_t));
  }
  return tokens;
}

TEST(BatchTransform, RanksOfAGroupSeeOneResultAndSlicesAreCutFromIt) {
  Scenario scenario = transformed();
  auto whole = start(scenario, 1, {});
  ASSERT_TRUE(whole->run(kSteps));
  scenario.spec.batch_transform = {};
  auto plain = start(scenario, 1, {});
  ASSERT_TRUE(plain->run(kSteps));
  EXPECT_NE(tokens_of(*whole, 0), tokens_of(*plain, 0));
  scenario = transformed();
  scenario.axes = {{"pp", 1}, {"dp", 2}, {"cp", 2}, {"tp", 2}};
  scenario.delivery.slicing = model::Slicing::kContiguous;
  auto sliced = start(scenario, 2, {});
  ASSERT_TRUE(sliced->run(kSteps)) << "hangs";
  for (Rank group = 0; group < 2; ++group) {
    const std::vector<int32_t> all = tokens_of(*whole, group);
    std::vector<int32_t> joined;
    const std::vector<int32_t> left = tokens_of(*sliced, group * 4);
    const std::vector<int32_t> right = tokens_of(*sliced, group * 4 + 2);
    const size_t width = scenario.spec.context / 2;
    ASSERT_EQ(left.size() + right.size(), all.size());
    for (size_t at = 0; at < left.size(); at += width) {
      joined.insert(joined.end(), left.begin() + static_cast<ptrdiff_t>(at),
                    left.begin() + static_cast<ptrdiff_t>(at + width));
      joined.insert(joined.end(), right.begin() + static_cast<ptrdiff_t>(at),
                    right.begin() + static_cast<ptrdiff_t>(at + width));
    }
    EXPECT_EQ(joined, all);
    EXPECT_EQ(left, tokens_of(*sliced, group * 4 + 1)) << "of its TP peer";
  }
}

TEST(BatchTransform, AFailureEndsAllGroupsAndNamesThePlace) {
  const Scenario scenario = transformed();
  const auto world = [&](uint64_t seed) {
    auto cluster = start(scenario, seed, seed % 2 == 0 ? Layout{} : stormy(seed), 3);
    ASSERT_TRUE(cluster->run(kSteps)) << "hangs";
    ASSERT_TRUE(cluster->failure().has_value());
    EXPECT_EQ(cluster->failure()->code(), Code::kUserFunction);
    EXPECT_NE(cluster->failure()->message().find("batch_transform f, step "), std::string::npos)
        << cluster->failure()->message();
    for (const Rank rank : cluster->ranks()) {
      EXPECT_TRUE(cluster->consumer(rank).ended());
      EXPECT_TRUE(cluster->consumer(rank).failure()) << "rank " << rank;
    }
    EXPECT_EQ(cluster->delivered(1).batches.back()->core->step, 2u);
  };
  // A group that told its own ranks died before it had told the planner.
  for_each_seed({20, {9'569'321'803'573}}, world);
}

TEST(BatchTransform, AResumedRunMakesTheSame) {
  const Scenario scenario = transformed();
  auto whole = start(scenario, 1, {});
  ASSERT_TRUE(whole->run(kSteps));
  auto first = start(scenario, 2, {});
  ASSERT_TRUE(first->run(3));
  const auto state = first->state(0);
  ASSERT_TRUE(state.has_value());
  const auto job = scenario.open();
  const auto adapted = host::resume_from(*job, *state, {});
  ASSERT_TRUE(adapted.ok()) << adapted.status().message();
  SimCluster second(job, *scenario.objects, scenario.all_ranks(), scenario.options, *adapted, 3, {},
                    nullptr,
                    [](World& world) { return std::make_unique<KeyedShift>(world, kSteps); });
  ASSERT_TRUE(second.run(kSteps - 3));
  for (const Rank rank : whole->ranks()) {
    std::vector<int32_t> tokens = tokens_of(*first, rank);
    const std::vector<int32_t> rest = tokens_of(second, rank);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    EXPECT_EQ(tokens, tokens_of(*whole, rank));
  }
}

}  // namespace batch_transform_test
}  // namespace overlord::sim
