// Whom a constructor seats, what it asks for, and how large it thinks a step may be.
#include "overlord/host/constructor_start.h"

#include <gtest/gtest.h>

#include "overlord/host/made_up_job_test.h"
#include "overlord/host/media_checks.h"
#include "overlord/plan/place/place_tree.h"

namespace overlord::host {
namespace {

// Two loaders of `a`, three of `b`; 8 bins of 128 tokens.
OpenJob job_over(std::vector<model::Axis> axes) {
  MadeUpJob made_up;
  made_up.axes = std::move(axes);
  for (const uint32_t loaders : {2u, 3u}) {
    model::Source source = made_up_source(loaders == 2 ? "a" : "b");
    source.loaders = loaders;
    source.eod = loaders;
    made_up.add(made_up_rows(source, 8));
  }
  const auto job = made_up.open();
  EXPECT_TRUE(job.ok()) << job.status().message();
  return **job;
}

planner::Tree tree_of(const OpenJob& job, uint32_t version = 1) {
  return {job.mesh, plan::make_views(job.mesh, job.delivery, version, job.spec.strategy), version};
}

constructor::ConstructorStart start_of(const OpenJob& job, uint32_t bucket,
                                       const std::vector<Rank>& ranks) {
  return constructor_start(job, tree_of(job), bucket, ranks, 0);
}

TEST(ConstructorStart, SeatsTheServedRanksOfItsBucket) {
  const OpenJob job = job_over({{"dp", 2}, {"cp", 2}});
  const auto start = constructor_start(job, tree_of(job, 3), 1, {0, 1, 3}, 7);
  EXPECT_EQ(start.ranks, std::vector<Rank>{3}) << "rank 2 is of the bucket and not served here";
  ASSERT_EQ(start.views.size(), 1u);
  EXPECT_EQ(start.views[0].slice, 1u);
  EXPECT_EQ(start.assemble.slices, 2u) << "it cuts for peers that it does not seat as well";
  EXPECT_EQ(start.job.bucket, 1u);
  EXPECT_EQ(start.job.tree, 3u);
  EXPECT_EQ(start.first_step, 7u);
  ASSERT_EQ(start.assemble.specials.size(), 2u);
  EXPECT_EQ(start.assemble.specials[1].eod, 3u);
}

TEST(ConstructorStart, AsksForTokensWhereSomebodySeesOrEncodesThem) {
  OpenJob job = job_over({{"pp", 3}});
  EXPECT_TRUE(start_of(job, 0, {0, 1}).job.wants_payload);
  EXPECT_FALSE(start_of(job, 0, {1}).job.wants_payload) << "a middle stage has boundaries alone";
  model::Source source = picture_source("c");
  source.media = {picture_field("image", "patchify layout=vit patch=8")};
  job.sources.push_back(pictures(source));
  ASSERT_TRUE(add_media_layouts(*job.sources.back(), &job.media).ok());
  job.spec.strategy.encoder.emplace();
  EXPECT_TRUE(start_of(job, 0, {1}).job.wants_payload) << "it may encode what others get";
}

TEST(ConstructorStart, AStepOfSequencesIsTheBucketsBinsAndOneMore) {
  OpenJob job = job_over({{"dp", 2}});
  job.delivery.microbatch_size = 2;
  const auto start = start_of(job, 0, {0, 1});
  EXPECT_EQ(start.assemble.rows, 2u);
  EXPECT_EQ(start.assemble.context, 128u);
  EXPECT_EQ(start.job.step_bytes, 3 * constructor::microbatch_bytes(start));
}

TEST(ConstructorStart, SamplesAreLaidOutInOneRowAsLongAsAllowed) {
  OpenJob job = job_over({{"dp", 2}});
  job.delivery.microbatch_size = 2;
  job.spec.strategy.atoms = model::Atoms::kSamples;
  EXPECT_EQ(start_of(job, 0, {0}).assemble.rows, 1u);
  EXPECT_EQ(start_of(job, 0, {0}).assemble.context, 256u);
  job.spec.strategy.microbatch_tokens = 200;
  EXPECT_EQ(start_of(job, 0, {0}).assemble.context, 200u);
}

TEST(ConstructorStart, SlicesAreOneRowOfTwiceAnEvenShare) {
  OpenJob job = job_over({{"dp", 2}, {"cp", 2}});
  job.spec.strategy.atoms = model::Atoms::kSlices;
  job.spec.strategy.axis = "cp";
  job.spec.align = 4;
  const auto start = start_of(job, 0, {0});
  EXPECT_EQ(start.assemble.rows, 1u);
  EXPECT_EQ(start.assemble.context, 2 * 8 * 128 / 4 + 4u) << "four consumers";
  EXPECT_EQ(start.job.step_bytes, constructor::microbatch_bytes(start));
  job.spec.bins = 1 << 20;
  job.spec.context = 1 << 20;
  EXPECT_EQ(start_of(job, 0, {0}).assemble.context, (uint32_t{1} << 31) - 1);
}

TEST(ConstructorStart, ChanceIsGivenWhereAFunctionNeedsIt) {
  OpenJob job = job_over({{"dp", 1}});
  EXPECT_FALSE(start_of(job, 0, {0}).batch_key.has_value());
  job.spec.batch_transform.function = "module:name";
  const auto key = start_of(job, 0, {0}).batch_key;
  ASSERT_TRUE(key.has_value());
  job.spec.seed += 1;
  EXPECT_NE(start_of(job, 0, {0}).batch_key, key) << "of the job's seed";
}

}  // namespace
}  // namespace overlord::host
