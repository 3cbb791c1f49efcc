#include "overlord/plan/place/callout.h"

#include <gtest/gtest.h>

#include <numeric>

#include "overlord/base/rng.h"
#include "overlord/plan/cost/cost.h"
#include "overlord/plan/made_up_cost_test.h"

namespace overlord::plan {
namespace {

using model::CalloutKind;
using model::CalloutRequest;

// Sixteen bins of one to three documents, over dp=4 in two substeps.
struct World {
  model::JobSpec spec;
  model::Mesh mesh = *model::Mesh::make({{"pp", 2}, {"dp", 4}});
  model::DeliverySpec delivery;
  std::shared_ptr<const model::ViewTable> views = make_views(mesh, delivery, 1);

  World() {
    spec.context = 4096;
    spec.bins = 16;
    spec.substeps = 2;
    spec.sources.resize(2);
    spec.sources[0].name = "code";
    spec.sources[1].name = "web";
    spec.columns = {"difficulty"};
  }
  PlanInputs inputs(const model::CalloutAnswers* answers = nullptr) const {
    return {spec, mesh, delivery, views, {}, nullptr, answers};
  }
  Selection step(uint64_t seed) const {
    Selection selection;
    StepContent& content = selection.content.emplace();
    content.columns = {{"difficulty", {}}};
    for (uint32_t bin = 0; bin < spec.bins; ++bin) {
      for (uint64_t d = 0; d <= uniform_below(seed, bin, 0, 3); ++d) {
        model::Segment segment;
        segment.id = {static_cast<uint32_t>(d % 2), 3, content.segments.size()};
        segment.count = static_cast<uint32_t>(1 + uniform_below(seed, bin, d + 1, 1024));
        content.segments.push_back(segment);
        content.columns[0].values.push_back(static_cast<int64_t>(bin));
      }
      content.bin_ends.push_back(static_cast<uint32_t>(content.segments.size()));
    }
    return selection;
  }
};

model::CostModel quadratic() {
  return quadratic_cost("tokens", 0, int64_t{512} << 32, int64_t{1} << 32);
}

World native(model::BalanceMethod method = model::BalanceMethod::kLptSearch) {
  World world;
  world.spec.strategy.has_cost = true;
  world.spec.strategy.cost = quadratic();
  world.spec.strategy.balance = method;
  world.spec.strategy.order = model::OrderMethod::kSearch;
  return world;
}

World with_cost_function() {
  World world = native();
  world.spec.strategy.cost = {};
  world.spec.strategy.cost_by = {"mine", "3", 1};
  return world;
}

std::vector<int64_t> quadratic_answer(const CalloutRequest& request) {
  std::vector<int64_t> costs;
  for (const int64_t s : request.columns[0].values) costs.push_back(512 * s + s * s);
  return costs;
}

CalloutRequest asked(const World& world, const Selection& step,
                     const model::CalloutAnswers& answers = {}) {
  auto request = next_callout(world.inputs(), 7, *step.content, answers);
  EXPECT_TRUE(request.ok() && *request) << request.status().message();
  return **request;
}

TEST(Callout, ACostFunctionThatSaysWhatTheModelSaysGivesTheSamePlan) {
  for (const model::Atoms atoms : {model::Atoms::kSequences, model::Atoms::kSamples}) {
    World plain = native(), own = with_cost_function();
    plain.spec.strategy.atoms = own.spec.strategy.atoms = atoms;
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Placer placer;
      const model::Plan expected =
          *build_plan(plain.inputs(), 7, plain.step(seed), &placer, nullptr);
      const CalloutRequest request = asked(own, own.step(seed));
      EXPECT_EQ(request.kind, CalloutKind::kCost);
      EXPECT_EQ(request.columns[0].name, "tokens");
      EXPECT_EQ(request.columns[1].name, "source");
      EXPECT_EQ(request.columns[2].name, "difficulty");
      model::CalloutAnswers answers;
      answers.keep(request.kind, quadratic_answer(request));
      ASSERT_TRUE(check_answer(own.spec, request, *answers.costs).ok());
      EXPECT_FALSE(*next_callout(own.inputs(), 7, *own.step(seed).content, answers));
      const model::Plan plan = *build_plan(own.inputs(&answers), 7, own.step(seed), &placer);
      EXPECT_EQ(plan.plan_hash, expected.plan_hash);
      EXPECT_EQ(plan.layers[0].report->step_ns, expected.layers[0].report->step_ns);
    }
  }
}

TEST(Callout, APlanIsNotMadeWithoutItsAnswers) {
  const World own = with_cost_function();
  Placer placer;
  EXPECT_FALSE(build_plan(own.inputs(), 7, own.step(1), &placer).ok());
}

World with_balancer() {
  World world = native(model::BalanceMethod::kArrival);
  world.spec.strategy.balance_by = {"backwards", "1", 1};
  return world;
}

// Bins of a substep to consumers from the last one down.
std::vector<int64_t> backwards(const CalloutRequest& request) {
  std::vector<int64_t> seats;
  const uint32_t rounds = request.seats.microbatches / request.seats.substeps;
  const auto per_substep = static_cast<uint32_t>(request.bin_ends.size() / request.seats.substeps);
  for (uint32_t bin = 0; bin < request.bin_ends.size(); ++bin) {
    const uint32_t index = bin % per_substep;
    const uint32_t consumer = request.seats.consumers - 1 - index % request.seats.consumers;
    const uint32_t microbatch = bin / per_substep * rounds + index / request.seats.consumers;
    seats.push_back(consumer * request.seats.microbatches + microbatch);
  }
  return seats;
}

TEST(Callout, ABalancerSeesCostsAndItsSeatsAreReadOutOfTheGraph) {
  const World world = with_balancer();
  const CalloutRequest request = asked(world, world.step(1));
  EXPECT_EQ(request.kind, CalloutKind::kBalance);
  ASSERT_EQ(request.bin_costs.size(), 16u);
  EXPECT_EQ(std::accumulate(request.bin_costs.begin(), request.bin_costs.end(), int64_t{0}),
            std::accumulate(request.sample_costs.begin(), request.sample_costs.end(), int64_t{0}));
  model::CalloutAnswers answers;
  answers.keep(request.kind, backwards(request));
  ASSERT_TRUE(check_answer(world.spec, request, *answers.seats).ok());
  Placer placer;
  std::shared_ptr<const DGraph> graph;
  const auto plan = build_plan(world.inputs(&answers), 7, world.step(1), &placer, &graph);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  uint32_t told = 0;
  for (const Edge& edge : graph->edges()) told += edge.op == EdgeOp::kUser;
  EXPECT_EQ(told, 16u);
  for (uint32_t bin = 0; bin < 16; ++bin) {
    EXPECT_EQ(plan->layers[0].placements[bin].bucket, 3 - bin % 4);
    EXPECT_EQ(plan->layers[0].placements[bin].microbatch / 2, bin / 8);  // its own substep
  }
}

TEST(Callout, PlanRawIsAskedOnceKnowsTheCostAndKeepsItsOrder) {
  World world = with_balancer();
  world.spec.strategy.order = model::OrderMethod::kKeep;
  world.spec.strategy.plan_by = std::exchange(world.spec.strategy.balance_by, {});
  world.spec.strategy.cost_by = {"mine", "3", 1};
  world.spec.strategy.cost = {};
  ASSERT_TRUE(check_strategy(world.spec, world.mesh, world.delivery).ok());
  const CalloutRequest cost = asked(world, world.step(1));
  EXPECT_EQ(cost.kind, CalloutKind::kCost);
  model::CalloutAnswers answers;
  answers.keep(cost.kind, quadratic_answer(cost));
  const CalloutRequest place = asked(world, world.step(1), answers);
  EXPECT_EQ(place.kind, CalloutKind::kPlan);
  EXPECT_EQ(place.sample_costs, *answers.costs);
  answers.keep(place.kind, backwards(place));
  Placer placer;
  const auto plan = build_plan(world.inputs(&answers), 7, world.step(1), &placer);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  for (uint32_t bin = 0; bin < 16; ++bin) {
    const model::Placement& at = plan->layers[0].placements[bin];
    EXPECT_EQ(at.bucket * 4 + at.microbatch, (*answers.seats)[bin]);
  }
}

void expect_refused(const World& world, const CalloutRequest& request,
                    const std::vector<int64_t>& answer, const std::vector<std::string>& named) {
  const Status status = check_answer(world.spec, request, answer);
  ASSERT_EQ(status.code(), Code::kUserFunction);
  for (const std::string& text : named) {
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  }
}

TEST(Callout, BadCostsAreRefusedByFunctionVersionStepAndFirstRow) {
  const World world = with_cost_function();
  const CalloutRequest request = asked(world, world.step(1));
  std::vector<int64_t> answer = quadratic_answer(request);
  const std::vector<std::string> who = {"cost function mine (version 3), step 7"};
  answer[4] = answer[6] = -1;
  expect_refused(world, request, answer, {who[0], "row 4", "[3:4]", "negative: -1"});
  answer = quadratic_answer(request);
  answer[2] = kMostStepCost;
  answer[3] = 1;
  expect_refused(world, request, answer, {who[0], "row 2", "too much"});
  answer.pop_back();
  expect_refused(world, request, answer, {who[0], "numbers for", "samples"});
}

TEST(Callout, BadSeatsAreRefusedByFunctionVersionStepAndFirstBin) {
  const World world = with_balancer();
  const CalloutRequest request = asked(world, world.step(1));
  const std::string who = "balance function backwards (version 1), step 7: ";
  std::vector<int64_t> answer = backwards(request);
  answer[5] = 16;
  expect_refused(world, request, answer, {who, "bin 5 was placed nowhere", "consumers are 0 to 3"});
  answer[5] = -1;
  expect_refused(world, request, answer, {who, "bin 5 was placed nowhere"});
  answer = backwards(request);
  std::swap(answer[0], answer[8]);
  expect_refused(world, request, answer, {who, "bin 0 of substep 0", "microbatches 0 to 1"});
  answer = backwards(request);
  answer[3] = answer[1];
  expect_refused(world, request, answer, {who, "bin 3 is one too many", "which holds 1"});
  answer.push_back(0);
  expect_refused(world, request, answer, {who, "17 numbers for 16 bins"});
}

TEST(Callout, WhatDoesNotGoTogetherIsRefused) {
  const auto refused = [](const model::Strategy& strategy) {
    return check_callouts(strategy).message();
  };
  model::Strategy strategy = with_balancer().spec.strategy;
  EXPECT_TRUE(check_callouts(strategy).ok());
  strategy.has_cost = false;
  EXPECT_NE(refused(strategy).find("needs a cost"), std::string::npos);
  strategy = with_balancer().spec.strategy;
  strategy.atoms = model::Atoms::kSamples;
  EXPECT_NE(refused(strategy).find("whole sequences"), std::string::npos);
  strategy = with_balancer().spec.strategy;
  strategy.group_size = 2;
  EXPECT_NE(refused(strategy).find("group_size"), std::string::npos);
  strategy = with_balancer().spec.strategy;
  strategy.plan_by = {"all", "1", 1};
  EXPECT_NE(refused(strategy).find("plan_raw"), std::string::npos);
  strategy = with_balancer().spec.strategy;
  strategy.balance = model::BalanceMethod::kVector;
  EXPECT_NE(refused(strategy).find("stands for the method"), std::string::npos);
  strategy = with_balancer().spec.strategy;
  strategy.further_costs = {strategy.cost};
  EXPECT_NE(refused(strategy).find("further_costs"), std::string::npos);
}

TEST(Callout, NothingThatNeedsANativeCostGoesWithACostFunction) {
  for (const World& world : {with_cost_function(), with_balancer()}) {
    model::JobSpec spec = world.spec;
    spec.strategy.memory_limit = 1 << 30;
    const Status limited = check_strategy(spec, world.mesh, world.delivery);
    EXPECT_NE(limited.message().find("memory_limit"), std::string::npos) << limited.message();
    spec = world.spec;
    spec.strategy.atoms = model::Atoms::kSlices;
    const Status hybrid = check_strategy(spec, world.mesh, world.delivery);
    EXPECT_NE(hybrid.message().find("strategy.hybrid"), std::string::npos) << hybrid.message();
    EXPECT_NE(hybrid.message().find("functions of your own"), std::string::npos);
  }
}

}  // namespace
}  // namespace overlord::plan
