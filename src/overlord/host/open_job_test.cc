// What a job is refused for, and where a stream begins or goes on.
#include "overlord/host/open_job.h"

#include <gtest/gtest.h>

#include <functional>

#include "overlord/host/made_up_job_test.h"

namespace overlord::host {
namespace {

MadeUpJob two_sources() {
  MadeUpJob job;
  job.add(made_up_rows(made_up_source("a"), 8));
  job.add(made_up_rows(made_up_source("b"), 8));
  return job;
}

void expect_spec_refused(const std::function<void(model::JobSpec&)>& change,
                         const std::string& says) {
  model::JobSpec spec = two_sources().spec;
  ASSERT_TRUE(check_spec(spec).ok()) << check_spec(spec).message();
  change(spec);
  expect_refused(check_spec(spec), says);
}

TEST(CheckSpec, TheStepsShape) {
  expect_spec_refused([](auto& spec) { spec.context = 0; }, "context: starts at 1");
  expect_spec_refused([](auto& spec) { spec.bins = 0; }, "bins: starts at 1");
  expect_spec_refused([](auto& spec) { spec.align = 0; }, "align: must divide context 128, got 0");
  expect_spec_refused([](auto& spec) { spec.align = 3; }, "align: must divide context 128, got 3");
  expect_spec_refused([](auto& spec) { spec.substeps = 0; }, "substeps: must divide bins 8, got 0");
  expect_spec_refused([](auto& spec) { spec.substeps = 3; }, "substeps: must divide bins 8, got 3");
  model::JobSpec large = two_sources().spec;
  large.context = 1 << 20;
  large.bins = 1 << 20;
  EXPECT_TRUE(check_spec(large).ok()) << "2^40 tokens are the most, and allowed";
  large.bins += 1;
  expect_refused(check_spec(large), "2^40");
}

TEST(CheckSpec, SourcesAreSortedUniqueAndDoSomething) {
  expect_spec_refused([](auto& spec) { spec.sources.clear(); }, "at least one");
  expect_spec_refused([](auto& spec) { std::swap(spec.sources[0], spec.sources[1]); },
                      "sorted and unique, see a");
  expect_spec_refused([](auto& spec) { spec.sources[1].name = "a"; }, "sorted and unique, see a");
  expect_spec_refused([](auto& spec) { spec.sources[1].loaders = 0; }, "source b: loaders");
  expect_spec_refused([](auto& spec) { spec.sources[1].workers = 0; }, "source b: loaders and wor");
  expect_spec_refused([](auto& spec) { spec.sources[0].window_rows = 0; }, "source a: window_rows");
  expect_spec_refused([](auto& spec) { spec.sources[0].window_bytes = 0; }, "and window_bytes");
}

TEST(CheckSpec, ColumnsAreThoseOfTheSourcesTogether) {
  model::JobSpec spec = two_sources().spec;
  spec.sources[0].metadata_columns = {"quality"};
  spec.sources[1].metadata_columns = {"length", "quality"};
  spec.columns = {"length", "quality"};
  EXPECT_TRUE(check_spec(spec).ok()) << check_spec(spec).message();
  spec.sources[0].filter = model::RowFilter{"quality", 1, 2};
  EXPECT_TRUE(check_spec(spec).ok()) << check_spec(spec).message();
  spec.sources[0].filter->column = "length";  // of the other source
  expect_refused(check_spec(spec), "source a: split by column 'length'");
  spec.sources[0].filter.reset();
  spec.columns = {"quality"};
  expect_refused(check_spec(spec), "columns: not those of the sources together");
  spec.columns = {"length", "other", "quality"};
  expect_refused(check_spec(spec), "columns: not those of the sources together");
  expect_spec_refused(
      [](auto& bad) {
        bad.sources[0].metadata_columns = {"tokens"};
        bad.columns = {"tokens"};
      },
      "'tokens' already");
}

TEST(CheckSpec, AMediaFieldGivesColumnsThatNobodyElseMayDeclare) {
  MadeUpJob job;
  model::Source source = picture_source("a");
  source.media = {picture_field("image", "patchify layout=vit patch=8")};
  job.spec.sources = {source};
  job.spec.mixture.stages[0].weights = {model::kWeightOne};
  job.spec.columns = {"image_count", "image_patches"};
  EXPECT_TRUE(check_spec(job.spec).ok()) << check_spec(job.spec).message();
  for (const std::string column : {"image_count", "image_patches"}) {
    job.spec.sources[0].metadata_columns = {column};
    expect_refused(check_spec(job.spec), "source a: metadata '" + column + "'");
  }
  job.spec.sources[0].metadata_columns.clear();
  job.spec.sources[0].over_length = model::OverLength::kSplit;
  expect_refused(check_spec(job.spec), "over_length must be drop");
}

TEST(CheckSpec, AFunctionOverMicrobatchesSeesWholeSequences) {
  expect_spec_refused(
      [](auto& spec) {
        spec.batch_transform.function = "module:name";
        spec.strategy.atoms = model::Atoms::kSlices;
      },
      "batch_transform: a function over microbatches sees whole sequences");
}

TEST(OpenJobs, RefusesWhatItsMeshOrItsSourcesCannotGive) {
  MadeUpJob job = two_sources();
  ASSERT_TRUE(job.open().ok()) << job.open().status().message();
  job.sources[1] = made_up_rows(made_up_source("b"), 0);
  expect_refused(job.open().status(), "source b: no rows");
  job = two_sources();
  job.axes = {{"dp", 3}};
  expect_refused(job.open().status(), "must divide bins");
  job = two_sources();
  job.spec.context = 1 << 28;
  job.delivery.microbatch_size = 8;
  expect_refused(job.open().status(), "below 2^31 tokens");
  job.delivery.microbatch_size = 4;
  EXPECT_TRUE(job.open().ok()) << job.open().status().message();
}

TEST(OpenJobs, AWindowNeedsACostAWidthAndNoFeedback) {
  MadeUpJob job = two_sources();
  job.spec.window.steps = 2;
  expect_refused(job.open().status(), "cost model: there is no term");
  job.spec.window.cost.terms = {{"patches", 0, 1}};
  expect_refused(job.open().status(), "window.cost: no source declares");
  job.spec.window.cost.terms = {{"tokens", 0, 1}};
  EXPECT_TRUE(job.open().ok()) << job.open().status().message();
  job.spec.window.width = 0;
  expect_refused(job.open().status(), "window.width: starts at 1");
  job.spec.window.width = 1;
  job.spec.mixture.controller.kind = model::ControllerKind::kOdm;
  expect_refused(job.open().status(), "set window.steps to 1");
  job.spec.window.steps = 1;
  EXPECT_TRUE(job.open().ok()) << job.open().status().message();
}

TEST(OpenJobs, TheManifestStandsForNamesAndDataInTheirOrder) {
  const auto digest_with = [](const std::string& second, uint32_t rows) {
    MadeUpJob job;
    job.add(made_up_rows(made_up_source("a"), 8));
    auto source = std::make_shared<loader::OpenSource>();
    source->spec = made_up_source(second);
    source->manifest.name = second;
    source->manifest.digest = {rows, 1};
    source->manifest.rows = rows;
    job.add(source);
    return (*job.open())->manifest.digest;
  };
  EXPECT_EQ(digest_with("b", 8), digest_with("b", 8));
  EXPECT_NE(digest_with("b", 8), digest_with("b", 9)) << "other data";
  EXPECT_NE(digest_with("b", 8), digest_with("c", 8)) << "the same data under another name";
}

TEST(ResumeFrom, KeepsWhereTheStreamStoodAndRefusesWhatIsNotThere) {
  const auto job = *two_sources().open();
  protocol::ResumeState saved = start_state(*job);
  EXPECT_EQ(saved.source_names, (std::vector<std::string>{"a", "b"}));
  saved.microbatch = 3;
  saved.content_chain = {1, 2};
  saved.plan_chain = {3, 4};
  saved.state.next_step = 5;
  saved.state.cursors[1].position = 8;  // at the end of the pass: there is nothing left to draw
  auto resumed = resume_from(*job, saved, {});
  ASSERT_TRUE(resumed.ok()) << resumed.status().message();
  EXPECT_EQ(resumed->microbatch, 3u);
  EXPECT_EQ(resumed->content_chain, (Digest{1, 2}));
  EXPECT_EQ(resumed->plan_chain, (Digest{3, 4}));
  EXPECT_EQ(resumed->state.next_step, 5u);
  saved.state.cursors[1].position = 9;
  expect_refused(resume_from(*job, saved, {}).status(), "source b stands at row 9 of 8",
                 Code::kOutOfRange);
}

TEST(ResumeFrom, AMetricDrivenStreamNeedsWhatWasReportedBefore) {
  MadeUpJob made_up = two_sources();
  made_up.spec.mixture.controller.kind = model::ControllerKind::kOdm;
  made_up.spec.mixture.controller.delay = 2;
  const auto job = *made_up.open();
  protocol::ResumeState saved = start_state(*job);
  ASSERT_FALSE(saved.state.controller.sources.empty());
  saved.state.next_step = 4;
  saved.feedback = {{3, {}, {}}};
  expect_refused(resume_from(*job, saved, {}).status(), "cannot go on without what was reported",
                 Code::kStateMismatch);
  saved.feedback = {{1, {}, {}}, {2, {}, {}}, {3, {}, {}}};
  auto resumed = resume_from(*job, saved, {});
  ASSERT_TRUE(resumed.ok()) << resumed.status().message();
  ASSERT_EQ(resumed->feedback.size(), 2u) << "what counts already is not brought along";
  EXPECT_EQ(resumed->feedback[0].step, 2u);
}

TEST(ResumeFrom, AControllerThatIsNewBeginsWhereTheStateStands) {
  const auto before = *two_sources().open();
  protocol::ResumeState saved = start_state(*before);
  saved.state.next_step = 7;
  MadeUpJob made_up = two_sources();
  made_up.spec.mixture.controller.kind = model::ControllerKind::kOdm;
  const auto job = *made_up.open();
  EXPECT_EQ(resume_from(*job, saved, {}).status().code(), Code::kStateMismatch);
  auto resumed = resume_from(*job, saved, {.mixture = true});
  ASSERT_TRUE(resumed.ok()) << resumed.status().message();
  EXPECT_EQ(resumed->state.controller.kind, model::ControllerKind::kOdm);
  EXPECT_EQ(resumed->state.controller.since, 7u);
}

TEST(AllReaders, WhomABroadcastServesIsNotWaitedFor) {
  MadeUpJob made_up = two_sources();
  made_up.axes = {{"dp", 2}, {"tp", 2}};
  EXPECT_FALSE(all_readers(**made_up.open(), {0, 2})) << "all four get data";
  EXPECT_TRUE(all_readers(**made_up.open(), {3, 2, 1, 0}));
  made_up.delivery.broadcast_axes = {"tp"};
  EXPECT_TRUE(all_readers(**made_up.open(), {0, 2}));
  EXPECT_TRUE(all_readers(**made_up.open(), {0, 1, 2, 3})) << "who is served may read too";
  EXPECT_FALSE(all_readers(**made_up.open(), {0, 1, 3})) << "rank 2 hands out to rank 3";
  made_up.axes = {{"pp", 3}, {"tp", 2}};
  EXPECT_TRUE(all_readers(**made_up.open(), {0, 4})) << "a middle stage has nothing to read";
  EXPECT_FALSE(all_readers(**made_up.open(), {0, 2})) << "the last one has targets";
  made_up.axes = {{"dp", 2}, {"tp", 2}};
  // Served with tokens, and yet an encoder of its own: its ranks exchange embeddings.
  made_up.spec.columns = {"weight"};
  for (auto& source : made_up.spec.sources) source.metadata_columns = {"weight"};
  auto& encoder = made_up.spec.strategy.encoder.emplace();
  encoder.module = "vision";
  encoder.column = "weight";
  encoder.axis = "world";
  encoder.cost.terms = {{"weight", 1}};
  const auto open = made_up.open();
  ASSERT_TRUE(open.ok()) << open.status().message();
  EXPECT_FALSE(all_readers(**open, {0, 2}));
}

}  // namespace
}  // namespace overlord::host
