// Rebuilding the place tree: an event at a step boundary. Steps hold what they held; where it goes,
// and the plan hash, change from that step on.
#include "overlord/roles/planner/tree.h"

#include <gtest/gtest.h>

#include <set>

#include "overlord/plan/place/place_tree.h"
#include "overlord/plan/select/selection.h"

namespace overlord::planner {
namespace {

constexpr uint64_t kRows = 4000;

model::Mesh mesh_of(std::vector<model::Axis> axes) { return *model::Mesh::make(std::move(axes)); }

PlannerJob job_on(const model::Mesh& mesh) {
  PlannerJob job;
  job.spec.context = 64;
  job.spec.bins = 8;
  job.spec.align = 8;
  job.spec.sources.emplace_back().name = "web";
  job.spec.mixture.stages = {{0, {model::kWeightOne}}};
  job.mesh = mesh;
  job.source_rows = {kRows};
  job.views = plan::make_views(mesh, job.delivery, 1);
  job.slots = job.most_slots = {1};
  job.buckets = {0, 1};
  job.runway = 1000;
  return job;
}

// A planner without its service: everything that is journalled becomes durable at once.
struct Bare {
  explicit Bare(PlannerJob planner_job)
      : job(std::move(planner_job)), state(plan::initial_state(job.spec), {0}, job.buckets) {
    auto window = std::make_shared<model::MetaWindow>();
    for (uint64_t row = 0; row < kRows; ++row) window->tokens.push_back(1 + row * 7 % 60);
    state.apply(GrantRaised{0, 1});
    state.apply(MetaArrived{0, window});
  }

  model::PlanPtr next() {
    const Reaction reaction = try_plan(job, state, selector, placer, draft);
    const auto* commit = std::get_if<Commit>(&reaction.effects.front());
    EXPECT_NE(commit, nullptr);
    state.apply(PlanMade{commit->plan});
    state.apply(PlanCommitted{commit->plan->step});
    state.apply(PlanReleased{commit->plan->step});
    return commit->plan;
  }

  Result<StepIndex> rebuild(const model::Mesh& mesh, std::optional<StepIndex> first) {
    OVERLORD_TRY(TreeDecision decision, decide_tree(job, state, {mesh, first}, state.next_step()));
    if (decision.change) state.apply(decision.change->change);
    return decision.first_step;
  }

  PlannerJob job;
  PlannerState state;
  plan::StepSelector selector;
  plan::Placer placer;
  StepDraft draft;
};

TEST(TreeChange, MovesThingsFromItsStepOnAndChangesNoContent) {
  const model::Mesh before = mesh_of({{"dp", 2}, {"tp", 2}});
  const model::Mesh orders[] = {mesh_of({{"tp", 2}, {"dp", 2}}), mesh_of({{"dp", 2}, {"cp", 2}}),
                                mesh_of({{"pp", 2}, {"dp", 2}}), mesh_of({{"dp", 4}}),
                                mesh_of({{"cp", 4}})};
  for (const model::Mesh& after : orders) {
    Bare kept(job_on(before)), rebuilt(job_on(before)), other(job_on(after));
    for (StepIndex step = 0; step < 8; ++step) {
      if (step == 3) {
        const auto first = rebuilt.rebuild(after, 5);
        ASSERT_TRUE(first.ok()) << first.status().message();
      }
      const model::PlanPtr plain = kept.next(), plan = rebuilt.next(), there = other.next();
      EXPECT_EQ(plan->content_hash, plain->content_hash) << step;
      EXPECT_EQ(plan->plan_hash == plain->plan_hash, step < 5) << after.text() << " " << step;
      EXPECT_EQ(plan->versions.tree, step < 5 ? 1u : 2u);
      const model::Layer& layer = plan->layers.front();
      EXPECT_EQ(layer.views->tree_version, plan->versions.tree);
      EXPECT_EQ(layer.views->digest, (step < 5 ? plain : there)->layers.front().views->digest)
          << "every rank sees what it would on " << after.text();
    }
    EXPECT_EQ(rebuilt.state.content_chain(), kept.state.content_chain());
    EXPECT_NE(rebuilt.state.plan_chain(), kept.state.plan_chain());
  }
}

TEST(TreeChange, TheNewestTreeBeforeAStepHolds) {
  Bare bare(job_on(mesh_of({{"dp", 2}, {"tp", 2}})));
  ASSERT_TRUE(bare.rebuild(mesh_of({{"tp", 2}, {"dp", 2}}), 1).ok());
  ASSERT_TRUE(bare.rebuild(mesh_of({{"dp", 2}, {"cp", 2}}), 3).ok());
  std::vector<uint32_t> versions;
  for (int i = 0; i < 6; ++i) versions.push_back(bare.next()->versions.tree);
  EXPECT_EQ(versions, (std::vector<uint32_t>{1, 2, 2, 3, 3, 3}));
  EXPECT_EQ(bare.state.newest_tree(1), 3u);
}

TEST(TreeChange, EveryTreeHasConstructorsOfItsOwnUntilItsLastStepIsConsumed) {
  Bare bare(job_on(mesh_of({{"dp", 2}, {"tp", 2}})));
  for (int i = 0; i < 2; ++i) bare.next();
  ASSERT_EQ(bare.rebuild(mesh_of({{"dp", 4}}), std::nullopt).value(), 2u);
  ASSERT_EQ(bare.state.constructors().size(), 6u);
  const model::PlanPtr plan = bare.next();
  std::set<protocol::Address> told;
  for (const Effect& effect : on_released(bare.job, bare.state, plan).effects) {
    const protocol::Address& to = std::get<Send>(effect).to;
    if (to.kind == protocol::RoleKind::kConstructor) told.insert(to);
  }
  std::set<protocol::Address> of_new;
  for (uint32_t bucket = 0; bucket < 4; ++bucket) {
    of_new.insert(protocol::constructor_address(bucket, 2));
  }
  EXPECT_EQ(told, of_new);
  EXPECT_EQ(bare.state.acknowledged(), 0u);
  bare.state.apply(ConstructorAcknowledged{protocol::constructor_address(0), 2});
  EXPECT_EQ(to_retire(bare.state), std::vector{protocol::constructor_address(0)});
  bare.state.apply(ConstructorRetired{protocol::constructor_address(0)});
  EXPECT_EQ(bare.state.acknowledged(), 0u) << "the other group is not done";
  bare.state.apply(ConstructorAcknowledged{protocol::constructor_address(1), 2});
  bare.state.apply(ConstructorRetired{protocol::constructor_address(1)});
  EXPECT_EQ(bare.state.acknowledged(), 2u);
  EXPECT_EQ(bare.state.unacknowledged().begin()->first, 2u);
}

TEST(TreeChange, WhoWishesTheSameGetsTheSameAnswer) {
  const model::Mesh other = mesh_of({{"dp", 4}});
  Bare bare(job_on(mesh_of({{"dp", 2}, {"tp", 2}})));
  bare.next();
  EXPECT_EQ(bare.rebuild(other, std::nullopt).value(), 1u);
  for (int i = 0; i < 3; ++i) bare.next();
  EXPECT_EQ(bare.rebuild(other, std::nullopt).value(), 1u) << "asked by a rank that is behind";
  EXPECT_EQ(bare.rebuild(other, 1).value(), 1u);
  EXPECT_EQ(bare.rebuild(other, 9).value(), 1u) << "it holds by then";
  EXPECT_EQ(bare.state.newest_tree(1), 2u);
  EXPECT_EQ(bare.rebuild(mesh_of({{"dp", 2}, {"tp", 2}}), 20).value(), 20u);
  EXPECT_EQ(bare.rebuild(mesh_of({{"cp", 4}}), std::nullopt).value(), 21u)
      << "changes follow each other";
  const auto early = bare.rebuild(other, 3);
  ASSERT_FALSE(early.ok());
  EXPECT_NE(early.status().message().find("the first that can be for another is 22"),
            std::string::npos)
      << early.status().message();
}

TEST(TreeChange, RefusesAnotherNumberOfRanksAndWhatDoesNotFit) {
  Bare bare(job_on(mesh_of({{"dp", 2}, {"tp", 2}})));
  const auto why = [&](std::vector<model::Axis> axes) {
    return bare.rebuild(mesh_of(std::move(axes)), 0).status().message();
  };
  EXPECT_NE(why({{"dp", 2}, {"tp", 4}}).find("restart from a state"), std::string::npos);
  bare.job.spec.context = 66;  // which cannot be cut into four chunks
  bare.job.spec.align = 1;
  EXPECT_FALSE(bare.rebuild(mesh_of({{"dp", 2}, {"cp", 2}}), 0).ok());
}

}  // namespace
}  // namespace overlord::planner
