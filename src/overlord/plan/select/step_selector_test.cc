#include "overlord/plan/select/step_selector.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "overlord/plan/cost/cost.h"
#include "overlord/plan/made_up_cost_test.h"
#include "overlord/plan/place/made_up_job_test.h"

namespace overlord::plan {
namespace {

MadeUpJob job_of(uint32_t window, uint32_t max_delay, uint32_t substeps = 1) {
  MadeUpJob job(256, 8);
  std::vector<uint32_t> lengths;
  for (uint64_t i = 0; i < 400; ++i) {
    const bool is_long = uniform_below(5, i, 0, 10) == 0;
    lengths.push_back(static_cast<uint32_t>(1 + uniform_below(5, i, 1, is_long ? 256 : 24)));
  }
  job.add(lengths, model::EndPolicy::kDrop);
  job.spec.substeps = substeps;
  job.spec.window.steps = window;
  job.spec.window.max_delay = max_delay;
  job.spec.window.width = 8;
  job.spec.window.cost = quadratic_cost("tokens", 0, int64_t{1} << 32, int64_t{1} << 28);
  return job;
}

struct Ran {
  std::vector<StepContent> steps;
  std::vector<model::StreamState> states;  // before each step, and after the last
};

// Every step with a selector of its own where `fresh`: as if resumed in front of each.
Ran run(const MadeUpJob& job, bool fresh) {
  std::vector<MetaBuffer> meta(job.spec.sources.size());
  for (uint64_t first = 0; first < job.rows[0]; first += job.window_rows) {
    meta[0].post(job.window(0, 0, first));
  }
  Ran ran;
  ran.states.push_back(initial_state(job.spec));
  StepSelector kept;
  while (!ran.states.back().ended) {
    StepSelector own;
    StepSelector& selector = fresh ? own : kept;
    const auto selection = selector.step(job.spec, job.rows, ran.states.back(), meta);
    EXPECT_TRUE(selection.ok()) << selection.status().message();
    if (!selection.ok() || !selection->content) break;
    ran.steps.push_back(*selection->content);
    ran.states.push_back(selection->after);
  }
  return ran;
}

std::multiset<uint64_t> positions(const std::vector<StepContent>& steps) {
  std::multiset<uint64_t> out;
  for (const StepContent& step : steps) {
    for (const model::Segment& segment : step.segments) out.insert(segment.id.position);
  }
  return out;
}

TEST(StepSelector, AWindowEndsWhereBinsChange) {
  MadeUpJob job = job_of(4, 3);
  job.spec.later_bins = {{2, 4}};
  const Ran ran = run(job, false);
  ASSERT_GT(ran.steps.size(), 6u);
  for (size_t i = 0; i < ran.steps.size(); ++i) {
    EXPECT_EQ(ran.steps[i].bin_ends.size(), i < 2 ? 8u : 4u);
  }
  EXPECT_EQ(ran.states[2].window_step, 0u);
  const Ran again = run(job, true);
  for (size_t i = 0; i < ran.steps.size(); ++i) {
    EXPECT_TRUE(same(ran.steps[i], again.steps[i])) << i;
    EXPECT_EQ(ran.states[i + 1].totals, again.states[i + 1].totals);
  }
}

TEST(StepSelector, TotalsAreWhatStepsHeldInsideAWindowToo) {
  const Ran ran = run(job_of(4, 3), true);
  model::StreamTotals totals;
  for (size_t i = 0; i < ran.steps.size(); ++i) {
    totals.sequences += 8;
    totals.tokens += ran.steps[i].tokens;
    totals.samples += ran.steps[i].segments.size();  // none is longer than a context
    EXPECT_EQ(ran.states[i + 1].totals, totals) << i;
  }
}

TEST(StepSelector, AWindowMovesBinsAndLosesNothing) {
  const Ran plain = run(job_of(1, 0), false);
  for (const uint32_t window : {2u, 3u, 4u}) {
    const Ran moved = run(job_of(window, 2), false);
    ASSERT_EQ(moved.steps.size(), plain.steps.size());
    EXPECT_EQ(positions(moved.steps), positions(plain.steps));
    bool differs = false;
    for (size_t i = 0; i < plain.steps.size(); ++i) {
      EXPECT_EQ(moved.steps[i].bin_ends.size(), 8u);
      differs = differs || positions({moved.steps[i]}) != positions({plain.steps[i]});
    }
    EXPECT_TRUE(differs);
    EXPECT_EQ(moved.states.back().cursors, plain.states.back().cursors);
  }
}

TEST(StepSelector, WithoutDelayNothingMoves) {
  const Ran plain = run(job_of(1, 0), false);
  const Ran still = run(job_of(4, 0), false);
  for (size_t i = 0; i < plain.steps.size(); ++i) {
    EXPECT_EQ(positions({still.steps[i]}), positions({plain.steps[i]}));
  }
}

TEST(StepSelector, ResumingInsideAWindowFindsTheSameSteps) {
  const Ran whole = run(job_of(4, 3), false);
  const Ran resumed = run(job_of(4, 3), true);
  ASSERT_EQ(whole.steps.size(), resumed.steps.size());
  for (size_t i = 0; i < whole.steps.size(); ++i) {
    EXPECT_EQ(positions({whole.steps[i]}), positions({resumed.steps[i]})) << "step " << i;
    EXPECT_EQ(whole.steps[i].tokens, resumed.steps[i].tokens);
    EXPECT_EQ(whole.states[i].next_step, i);
    // Inside a window the state is that of its start: it does not grow.
    EXPECT_EQ(whole.states[i].cursors, whole.states[i / 4 * 4].cursors);
    EXPECT_EQ(whole.states[i].window_step, i % 4);
  }
}

TEST(StepSelector, NothingMovesFurtherThanTheCapOrOverASubstep) {
  const Ran plain = run(job_of(1, 0, 2), false);
  const Ran moved = run(job_of(4, 1, 2), false);
  std::map<std::pair<uint64_t, uint32_t>, std::pair<size_t, uint32_t>> home;
  const auto visit = [](const Ran& ran, const auto& body) {
    for (size_t i = 0; i < ran.steps.size(); ++i) {
      uint32_t s = 0;
      for (uint32_t bin = 0; bin < 8; ++bin) {
        for (; s < ran.steps[i].bin_ends[bin]; ++s) body(ran.steps[i].segments[s], i, bin / 4);
      }
    }
  };
  visit(plain, [&](const model::Segment& segment, size_t step, uint32_t substep) {
    home[{segment.id.position, segment.first}] = {step, substep};
  });
  visit(moved, [&](const model::Segment& segment, size_t step, uint32_t substep) {
    const auto& [from, own] = home.at({segment.id.position, segment.first});
    EXPECT_LE(from > step ? from - step : step - from, 1u);
    EXPECT_EQ(own, substep);
  });
}

// The job's metadata, posted a window at a time.
class SlowLoader {
 public:
  explicit SlowLoader(const MadeUpJob& job) : job_(job), posted_(job.rows.size(), 0) {
    meta.resize(job.rows.size());
  }
  void post(SourceIndex source, uint64_t windows) {
    for (uint64_t i = 0; i < windows && posted_[source] < job_.rows[source]; ++i) {
      meta[source].post(job_.window(source, 0, posted_[source]));
      posted_[source] += job_.window_rows;
    }
  }

  std::vector<MetaBuffer> meta;

 private:
  const MadeUpJob& job_;
  std::vector<uint64_t> posted_;
};

MadeUpJob random_stepped_job(uint64_t seed) {
  const auto dice = [seed](uint64_t draw, uint64_t sides) {
    return static_cast<uint32_t>(uniform_below(seed, 1, draw, sides));
  };
  MadeUpJob job = job_of(2 + dice(0, 4), 1 + dice(1, 3), 1 + dice(2, 2));
  for (uint32_t extra = dice(3, 3); extra > 0; --extra) {
    std::vector<uint32_t> lengths;
    for (uint64_t i = 0; i < 150; ++i) {
      lengths.push_back(static_cast<uint32_t>(1 + uniform_below(seed, extra, i, 300)));
    }
    job.add(lengths, model::EndPolicy::kDrop);
  }
  job.spec.max_steps = dice(4, 2) == 0 ? 0 : 7;
  return job;
}

// When metadata comes, what was selected ahead of need and how often a step is asked for changes
// nothing: every step is that of a selector which knows nothing but the state.
TEST(StepSelector, WhenAStepIsSelectedChangesNothingInIt) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const MadeUpJob job = random_stepped_job(seed);
    const std::vector<MetaBuffer> all = job.post(1);
    SlowLoader loader(job);
    StepSelector kept;
    model::StreamState state = initial_state(job.spec);
    for (uint64_t call = 0; !state.ended;) {
      StepSelector fresh;
      const auto expected = fresh.step(job.spec, job.rows, state, all);
      const auto found = kept.step(job.spec, job.rows, state, loader.meta);
      ASSERT_EQ(found.ok(), expected.ok()) << "seed " << seed;
      if (!expected.ok()) break;  // max_steps is reached
      if (!found->content) {
        ASSERT_FALSE(found->needs.empty());
        const uint64_t more = 1 + uniform_below(seed, 2, call++, 12);
        for (const MetaNeed& need : found->needs) loader.post(need.source, more);
        continue;
      }
      ASSERT_TRUE(same(*found->content, *expected->content)) << seed << ", " << state.next_step;
      ASSERT_EQ(found->content->waits, expected->content->waits);
      ASSERT_TRUE(same(found->after, expected->after)) << seed << ", " << state.next_step;
      ASSERT_EQ(found->after.window_step, expected->after.window_step);
      if (uniform_below(seed, 3, call++, 4) == 0) continue;  // asks for the same step again
      state = found->after;
    }
  }
}

TEST(StepSelector, OneStepOfTheNextWindowIsSelectedByEveryCall) {
  const MadeUpJob job = job_of(2, 1);
  const Ran plain = run(job_of(1, 0), false);
  const std::vector<MetaBuffer> meta = job.post(1), nothing(1);
  StepSelector selector;
  model::StreamState state = initial_state(job.spec);
  for (int step = 0; step < 2; ++step) {
    state = selector.step(job.spec, job.rows, state, meta)->after;
  }
  EXPECT_EQ(state.window_step, 0u);
  EXPECT_GT(selector.held_bytes(), 0u);
  // The first call had a window to select. The one after it left one step of the next to do.
  ASSERT_GT(plain.states.size(), 3u);
  const auto waits = selector.step(job.spec, job.rows, state, nothing);
  ASSERT_TRUE(waits.ok() && !waits->content);
  EXPECT_EQ(waits->needs[0].position, plain.states[3].cursors[0].position);
}

TEST(StepSelector, AnotherStateAtAWindowsStartIsSelectedAnew) {
  const MadeUpJob job = job_of(4, 3);
  const std::vector<MetaBuffer> meta = job.post(1);
  StepSelector selector;
  model::StreamState state = initial_state(job.spec);
  for (int step = 0; step < 4; ++step) {
    state = selector.step(job.spec, job.rows, state, meta)->after;
  }
  state.cursors[0].position += 5;
  const auto moved = selector.step(job.spec, job.rows, state, meta);
  const auto expected = StepSelector().step(job.spec, job.rows, state, meta);
  EXPECT_TRUE(same(*moved->content, *expected->content));
}

}  // namespace
}  // namespace overlord::plan
