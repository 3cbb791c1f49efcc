#include "overlord/plan/place/place_tree.h"

#include <gtest/gtest.h>

#include <set>

namespace overlord::plan {
namespace {

using model::Share;

model::Mesh mesh_of(std::vector<model::Axis> axes) { return *model::Mesh::make(std::move(axes)); }

model::JobSpec spec_of(uint32_t bins, uint32_t substeps = 1) {
  model::JobSpec spec;
  spec.context = 64;
  spec.bins = bins;
  spec.substeps = substeps;
  return spec;
}

Selection empty_step(uint32_t bins) {
  Selection selection;
  selection.content.emplace();
  selection.content->bin_ends.assign(bins, 0);
  return selection;
}

TEST(CheckFit, NamesTheNearestValidBins) {
  model::DeliverySpec delivery;
  delivery.microbatch_size = 2;
  const Status status = check_fit(spec_of(10), mesh_of({{"dp", 4}}), delivery);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("nearest 8 or 16"), std::string::npos) << status.message();
  delivery.fill_empty = true;
  EXPECT_TRUE(check_fit(spec_of(10), mesh_of({{"dp", 4}}), delivery).ok());
}

TEST(CheckFit, SlicingNeedsItsMultiples) {
  model::DeliverySpec delivery;
  delivery.slicing = model::Slicing::kDocumentZigzag;
  EXPECT_FALSE(check_fit(spec_of(4), mesh_of({{"cp", 2}}), delivery).ok());
  model::JobSpec aligned = spec_of(4);
  aligned.align = 4;
  EXPECT_TRUE(check_fit(aligned, mesh_of({{"cp", 2}}), delivery).ok());
  delivery.slicing = model::Slicing::kSequenceZigzag;
  EXPECT_FALSE(check_fit(spec_of(4), mesh_of({{"cp", 3}}), delivery).ok());
}

TEST(Views, StagesGetWhatTheyUse) {
  const auto views = make_views(mesh_of({{"pp", 3}, {"dp", 2}, {"cp", 2}, {"tp", 2}}), {}, 1);
  const auto& first = views->by_rank[0];
  EXPECT_EQ(first.share, Share::kSlice);
  EXPECT_EQ(first.fields, model::kFieldTokens | model::kFieldPositions | model::kFieldBoundaries);
  EXPECT_EQ(views->by_rank[8].share, Share::kBoundaries);
  EXPECT_EQ(views->by_rank[16].fields,
            model::kFieldTargets | model::kFieldLossWeights | model::kFieldBoundaries);
  EXPECT_EQ(views->by_rank[2].slice, 1u);   // cp coordinate
  EXPECT_EQ(views->by_rank[4].bucket, 1u);  // dp coordinate
}

TEST(Views, BroadcastAxesPruneAndUnslice) {
  model::DeliverySpec delivery;
  delivery.broadcast_axes = {"tp", "cp"};
  const auto views = make_views(mesh_of({{"dp", 1}, {"cp", 2}, {"tp", 2}}), delivery, 1);
  EXPECT_EQ(views->by_rank[0].share, Share::kFull);
  for (const Rank rank : {1u, 2u, 3u}) EXPECT_EQ(views->by_rank[rank].share, Share::kNone);
}

TEST(Views, WhomNobodyServesNeedsNoLoader) {
  model::DeliverySpec delivery;
  delivery.broadcast_axes = {"tp"};
  const model::Mesh mesh = mesh_of({{"pp", 3}, {"tp", 2}});
  EXPECT_EQ(ranks_served(*make_views(mesh, delivery, 1), false), (std::vector<Rank>{0, 2, 4}));
  EXPECT_EQ(ranks_served(*make_views(mesh, delivery, 1), true), (std::vector<Rank>{0, 4}));
  delivery.all_stages = true;
  EXPECT_EQ(ranks_served(*make_views(mesh, delivery, 1), true), (std::vector<Rank>{0, 2, 4}));
}

TEST(Placement, EveryBinHasOneSeatAndSubstepsEndTogether) {
  const model::JobSpec spec = spec_of(24, 2);
  const model::Mesh mesh = mesh_of({{"dp", 3}});
  model::DeliverySpec delivery;
  delivery.microbatch_size = 2;
  Placer placer;
  const model::Plan plan = *build_plan({spec, mesh, delivery, make_views(mesh, delivery, 1), {}}, 0,
                                       empty_step(24), &placer);
  const model::Layer& layer = plan.layers.front();
  EXPECT_EQ(layer.microbatches, 4u);
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> seats;
  for (uint32_t bin = 0; bin < 24; ++bin) {
    const model::Placement& place = layer.placements[bin];
    EXPECT_TRUE(seats.insert({place.bucket, place.microbatch, place.slot}).second);
    EXPECT_EQ(place.microbatch / 2, bin / 12);  // substep of the bin = substep of the microbatch
  }
}

TEST(PlanHash, ContentReadsNoMeshPlanDoes) {
  const model::JobSpec spec = spec_of(8);
  const auto plan_on = [&](std::vector<model::Axis> axes) {
    const model::Mesh mesh = mesh_of(std::move(axes));
    const model::DeliverySpec delivery;
    Placer placer;
    return *build_plan({spec, mesh, delivery, make_views(mesh, {}, 1), {}}, 3, empty_step(8),
                       &placer);
  };
  const model::Plan two = plan_on({{"dp", 2}});
  const model::Plan four = plan_on({{"dp", 4}});
  EXPECT_EQ(two.content_hash, four.content_hash);
  EXPECT_NE(two.plan_hash, four.plan_hash);
}

}  // namespace
}  // namespace overlord::plan
