#include "overlord/plan/step_selector.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "overlord/plan/cost.h"
#include "overlord/plan/made_up_job_test.h"

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
  job.spec.window.cost = *quadratic_cost("tokens", 0, int64_t{1} << 32, int64_t{1} << 28);
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

}  // namespace
}  // namespace overlord::plan
