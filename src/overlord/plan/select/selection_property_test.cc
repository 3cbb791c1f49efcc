// What must hold for every job: thousands of small random jobs, each run to its end and checked
// step by step against what can be seen from outside (lengths, segments, cursors).
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "overlord/base/fixed_point.h"
#include "overlord/plan/place/made_up_job_test.h"
#include "overlord/plan/select/selection.h"
#include "overlord/testing/rounds.h"

namespace overlord::plan {
namespace {

using model::EndPolicy;
using model::Packing;
using model::Segment;
using model::StreamState;

constexpr uint32_t kPasses = 12;
constexpr uint64_t kMostSteps = 60;

// A die for one trial: each throw is numbered, so that trials repeat.
class Dice {
 public:
  Dice(const char* what, uint64_t trial) : key_(derive_key(77, what, trial)) {}
  uint32_t below(uint64_t n) { return static_cast<uint32_t>(uniform_below(key_, ++throws_, 0, n)); }
  uint32_t between(uint32_t low, uint32_t high) { return low + below(high - low + 1); }
  bool one_in(uint64_t n) { return below(n) == 0; }
  uint64_t key() { return random_u64(key_, ++throws_, 1); }

 private:
  uint64_t key_;
  uint64_t throws_ = 0;
};

std::vector<model::LossSpan> random_spans(Dice& dice, uint32_t tokens) {
  std::vector<model::LossSpan> spans;
  for (uint32_t at = dice.below(5); at < tokens;) {
    const uint32_t count = std::min(1 + dice.below(9), tokens - at);
    spans.push_back({at, count});
    at += count + 1 + dice.below(9);
  }
  return spans;
}

std::vector<uint32_t> random_lengths(Dice& dice, uint32_t context) {
  const uint32_t rows = dice.between(1, 120);
  switch (dice.below(5)) {
    case 0:
      return std::vector<uint32_t>(rows, context / 2 + 1);  // the worst for packing
    case 1:
      return std::vector<uint32_t>(rows, dice.between(1, context));
    case 2:
      return text_lengths(dice.key(), rows, 4 * context);
    case 3:
      return text_lengths(dice.key(), rows, 40 * context);
    default:
      return text_lengths(dice.key(), rows, context);
  }
}

MadeUpJob random_job(uint64_t trial) {
  Dice dice("job", trial);
  const uint32_t align = dice.one_in(2) ? 1 : dice.between(1, 4);
  const uint32_t substeps = dice.one_in(2) ? 1 : dice.between(1, 3);
  MadeUpJob job(align * dice.between(1, 40), substeps * dice.between(1, 6));
  job.spec.align = align;
  job.spec.substeps = substeps;
  job.spec.seed = dice.key();
  job.spec.packing.method = static_cast<Packing>(dice.one_in(2) ? 0 : dice.below(3));
  job.spec.packing.slack_permille = dice.one_in(2) ? 50 : dice.below(1500);
  job.spec.packing.max_delay_steps = dice.below(5);
  job.spec.leftover = static_cast<model::Leftover>(dice.below(2));
  job.spec.max_steps = dice.one_in(4) ? 1 + dice.below(20) : 0;
  job.spec.mixture.unit = static_cast<model::MixUnit>(dice.below(2));
  job.spec.mixture.quota = dice.one_in(4) ? model::Quota::kMultinomial : model::Quota::kExact;
  job.window_rows = dice.between(1, 40);
  const uint32_t sources = dice.between(1, 5);
  for (uint32_t s = 0; s < sources; ++s) {
    auto lengths = random_lengths(dice, job.spec.context);
    const bool masked = dice.one_in(3);
    if (dice.one_in(3)) {
      for (uint32_t& length : lengths) length = dice.one_in(5) ? 0 : length;
    }
    model::Source& source =
        job.add(lengths, static_cast<EndPolicy>(dice.below(3)), 1 + dice.below(model::kWeightOne));
    source.bad_rows_allowed = 1'000'000;
    source.over_length = static_cast<model::OverLength>(dice.below(3));
    if (!masked) continue;
    for (uint32_t length : lengths) job.sources[s].spans.push_back(random_spans(dice, length));
  }
  if (dice.one_in(3)) {
    model::MixtureStage second{1 + dice.below(5), job.spec.mixture.stages[0].weights};
    second.weights[dice.below(sources)] = sources > 1 ? 0 : 5;
    job.spec.mixture.stages.push_back(second);
  }
  if (dice.one_in(6)) job.spec.leftover = model::Leftover::kDropLast;
  for (StepIndex step = 0; dice.one_in(2);) {
    step += 1 + dice.below(4);
    job.spec.later_bins.push_back({step, substeps * dice.between(1, 8)});
  }
  const bool pools = job.spec.packing.method == Packing::kBestFit;
  for (uint32_t s = 0; pools && s < sources; ++s) {
    if (!dice.one_in(4)) continue;
    job.sources[s].group(dice.between(2, 4), job.window_rows);
    job.spec.sources[s].over_length = model::OverLength::kDrop;
  }
  return job;
}

// Follows a stream from outside and knows what may come next.
class Judge {
 public:
  explicit Judge(const MadeUpJob& job) : job_(job), cursors_(job.sources.size()) {}

  void step(const StepContent& content, const StreamState& after) {
    note_drawn(after);
    check_bins(content, after.next_step - 1);
    for (const Segment& segment : content.segments) check_segment(segment, after.next_step - 1);
    check_sums(content);
    check_state(content, after);
    cursors_ = after.cursors;
  }

  // Every document that was drawn has been placed to its last token, but for what was counted.
  void end(const StreamState& after) {
    uint64_t missing = 0;
    for (const auto& [id, step] : drawn_step_) missing += job_.held_length(id) - placed_[id];
    EXPECT_EQ(missing, after.leftover_dropped);
    EXPECT_TRUE(after.carried.empty());
    check_last(after, missing);
    if (job_.spec.leftover == model::Leftover::kDrain && job_.spec.max_steps == 0) {
      EXPECT_EQ(missing, 0u);
    }
  }

 private:
  // With drop_last: what is left would not have filled one more step.
  void check_last(const StreamState& after, uint64_t left) const {
    const model::JobSpec& spec = job_.spec;
    bool simple = spec.leftover == model::Leftover::kDropLast && spec.max_steps == 0 &&
                  spec.substeps == 1 && spec.mixture.stages.size() == 1 &&
                  spec.packing.method == Packing::kBestFit && spec.packing.max_delay_steps > 0;
    for (SourceIndex s = 0; s < job_.sources.size(); ++s) {
      simple = simple && spec.sources[s].at_end == EndPolicy::kDrop;
      for (uint64_t row = after.cursors[s].position; row < job_.rows[s]; ++row) {
        if (drawable(s, row)) left += job_.held_length({s, 0, row});
      }
    }
    if (simple) {
      EXPECT_LT(left, spec.step_tokens(after.next_step));
    }
  }

  bool drawable(SourceIndex source, uint64_t position) const {
    const MadeUpSource& made_up = job_.sources[source];
    const uint32_t length = made_up.lengths[position];
    if (!made_up.group_ends.empty()) {
      uint64_t padded = 0;
      bool good = true;
      for (uint64_t row = 0; row < made_up.lengths.size(); ++row) {
        if (made_up.group_ends[row] != made_up.group_ends[position]) continue;
        padded += round_up(made_up.lengths[row], job_.spec.align);
        good = good && made_up.lengths[row] > 0;
      }
      return good && padded <= job_.spec.context;
    }
    const bool dropped = job_.spec.sources[source].over_length == model::OverLength::kDrop;
    return length > 0 && !(dropped && length > job_.spec.context);
  }

  // A row with the one before it in one group.
  bool joined(const SampleId& id) const {
    const auto& ends = job_.sources[id.source].group_ends;
    return !ends.empty() && id.position > 0 && ends[id.position] == ends[id.position - 1];
  }

  // Which documents this step drew, as told by the cursors alone.
  void note_drawn(const StreamState& after) {
    for (SourceIndex s = 0; s < cursors_.size(); ++s) {
      SampleId id{s, cursors_[s].pass, cursors_[s].position};
      while (id.pass < after.cursors[s].pass || id.position < after.cursors[s].position) {
        if (id.position == job_.rows[s]) {
          id = {s, id.pass + 1, 0};
          continue;
        }
        if (drawable(s, id.position)) {
          ASSERT_TRUE(drawn_step_.emplace(id, after.next_step - 1).second);
          placed_[id] = 0;
        }
        ++id.position;
      }
    }
  }

  void check_bins(const StepContent& content, StepIndex step) {
    ASSERT_EQ(content.bin_ends.size(), job_.spec.bins_at(step));
    ASSERT_EQ(content.bin_ends.back(), content.segments.size());
    uint32_t at = 0;
    for (uint32_t end : content.bin_ends) {
      ASSERT_LE(at, end);
      ASSERT_TRUE(job_.spec.packing.method != Packing::kPad || end - at <= 1);
      uint64_t used = 0;
      const uint32_t begin = at;
      for (; at < end; ++at) {
        const Segment& segment = content.segments[at];
        used += round_up(segment.count, job_.spec.align);
        if (!joined(segment.id)) continue;  // the others of its group stand before it
        ASSERT_GT(at, begin);
        SampleId before = segment.id;
        --before.position;
        ASSERT_EQ(content.segments[at - 1].id, before);
      }
      ASSERT_LE(used, job_.spec.context);
    }
  }

  void check_segment(const Segment& segment, StepIndex step) {
    ASSERT_TRUE(drawn_step_.contains(segment.id));
    const uint32_t length = job_.held_length(segment.id);
    ASSERT_GT(segment.count, 0u);
    // In pieces from the front. (Best fit may place a later piece first: then by set.)
    ASSERT_LE(uint64_t{segment.first} + segment.count, length);
    for (uint32_t t = segment.first; t < segment.first + segment.count; ++t) {
      ASSERT_TRUE(tokens_.emplace(segment.id, t).second) << "token placed twice";
    }
    placed_[segment.id] += segment.count;
    const bool continues = segment.first + segment.count < length;
    ASSERT_EQ(segment.flags,
              (continues ? Segment::kContinues : 0) | (joined(segment.id) ? Segment::kJoined : 0));
    ASSERT_EQ(segment.targets, targets_by_hand(segment, length));
    const bool whole = job_.spec.packing.method == Packing::kBestFit && length <= job_.spec.context;
    if (whole) {
      ASSERT_EQ(segment.count, length);
      const uint64_t delay = step - drawn_step_[segment.id];
      ASSERT_LE(delay, job_.spec.packing.max_delay_steps);
      delay_seen_ = std::max(delay_seen_, delay);
    }
  }

  uint32_t targets_by_hand(const Segment& segment, uint32_t length) const {
    const MadeUpSource& source = job_.sources[segment.id.source];
    uint32_t targets = 0;
    for (uint32_t t = segment.first + 1; t <= segment.first + segment.count && t < length; ++t) {
      bool carries = source.spans.empty();
      if (!carries) {
        for (const auto& span : source.spans[segment.id.position]) {
          carries = carries || (t >= span.first && t < span.first + span.count);
        }
      }
      targets += carries;
    }
    return targets;
  }

  void check_sums(const StepContent& content) {
    uint64_t tokens = 0, targets = 0;
    std::vector<uint64_t> served(job_.sources.size());
    for (const Segment& segment : content.segments) {
      tokens += segment.count;
      targets += segment.targets;
      served[segment.id.source] += segment.count;
    }
    EXPECT_EQ(content.tokens, tokens);
    EXPECT_EQ(content.target_tokens, targets);
    EXPECT_EQ(content.served, served);
    EXPECT_LE(content.max_delay, job_.spec.packing.max_delay_steps);
    EXPECT_GE(content.max_delay, delay_seen_);
    delay_seen_ = 0;
    EXPECT_FALSE(content.segments.empty());
  }

  void check_state(const StepContent& content, const StreamState& after) {
    EXPECT_EQ(content.last, after.ended);
    uint64_t drawn = 0, carried = after.leftover_dropped, placed = 0;
    for (const auto& cursor : after.cursors) drawn += cursor.tokens;
    for (const auto& c : after.carried) carried += c.end - c.first;
    for (const auto& [id, tokens] : placed_) placed += tokens;
    EXPECT_EQ(drawn, placed + carried);
    for (SourceIndex s = 0; s < after.cursors.size(); ++s) {
      const auto& cursor = after.cursors[s];
      const bool tokens = job_.spec.mixture.unit == model::MixUnit::kTokens;
      const uint64_t units = tokens ? cursor.tokens : cursor.samples;
      asked_[s] += content.asked[s];
      EXPECT_EQ(static_cast<int64_t>(asked_[s]),
                static_cast<int64_t>(units) + (cursor.debt >> kDebtBits));
      if (job_.spec.mixture.quota != model::Quota::kExact || cursor.dry) continue;
      int64_t longest = 1;
      if (tokens) {
        for (uint32_t length : job_.sources[s].lengths)
          longest = std::max<int64_t>(longest, length);
      }
      if (!job_.sources[s].group_ends.empty()) longest *= 4;  // rows of a group
      EXPECT_LE(cursor.debt, 0);
      EXPECT_GE(cursor.debt, -longest * kDebtOne - 1000);
    }
  }

  const MadeUpJob& job_;
  std::vector<model::SourceCursor> cursors_;
  std::map<SampleId, StepIndex> drawn_step_;
  std::map<SampleId, uint64_t> placed_;
  std::set<std::pair<SampleId, uint32_t>> tokens_;
  std::map<SourceIndex, uint64_t> asked_;
  uint64_t delay_seen_ = 0;
};

struct Tally {
  uint64_t ended = 0, refused = 0, unfinished = 0, steps = 0, delayed = 0, drained = 0;
};

void judge(const MadeUpJob& job, Tally* tally) {
  const auto steps = run_steps(job, kMostSteps, kPasses);
  if (!steps.ok()) {
    // Nothing to draw at all, or a pass without a document: the only reasons a random job may give.
    ASSERT_TRUE(steps.status().code() == Code::kInvalidArgument ||
                steps.status().message().find("waits") == 0)
        << steps.status().message();
    ++tally->refused;
    return;
  }
  Judge judge(job);
  for (const MadeUpStep& step : *steps) {
    judge.step(step.content, step.after);
    if (testing::Test::HasFailure()) return;
    tally->delayed += step.content.max_delay > 0;
    tally->drained += step.content.asked == std::vector<uint64_t>(job.sources.size(), 0);
  }
  tally->steps += steps->size();
  if (steps->back().after.ended) {
    judge.end(steps->back().after);
    ++tally->ended;
  } else {
    ++tally->unfinished;
  }
}

TEST(SelectionProperty, EveryTokenOnceInBinsThatHoldWithinTheCap) {
  Tally tally;
  const uint64_t trials = rounds(1000, 3000);
  for (uint64_t trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    judge(random_job(trial), &tally);
    if (testing::Test::HasFailure()) return;
  }
  // The dice must reach every kind of ending, or the test is weaker than it looks.
  EXPECT_GT(tally.ended, trials / 3);
  EXPECT_GT(tally.unfinished, trials / 30);
  EXPECT_LT(tally.refused, trials * 3 / 10);
  EXPECT_GT(tally.delayed, trials * 2 / 3);
  EXPECT_GT(tally.drained, trials / 15);
}

TEST(SelectionProperty, AskingTwiceOrResumingChangesNothing) {
  for (uint64_t trial = 0; trial < 400; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    const MadeUpJob job = random_job(trial);
    const auto steps = run_steps(job, 20, kPasses);  // one Selector for all steps
    if (!steps.ok()) continue;
    const auto meta = job.post(kPasses);
    StreamState state = initial_state(job.spec);
    for (const MadeUpStep& step : *steps) {
      const StreamState copy = state;
      const auto first = select_step(job.spec, job.rows, state, meta);
      const auto again = select_step(job.spec, job.rows, copy, meta);
      ASSERT_TRUE(first.ok() && again.ok());
      ASSERT_TRUE(same(state, copy)) << "the state before was changed";
      ASSERT_TRUE(same(*first->content, step.content));
      ASSERT_TRUE(same(*again->content, step.content));
      ASSERT_TRUE(same(first->after, step.after));
      ASSERT_TRUE(same(again->after, step.after));
      state = step.after;
    }
  }
}

TEST(SelectionProperty, MetadataMayComeInAnyOrderAndAnyTime) {
  for (uint64_t trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    const MadeUpJob job = random_job(trial);
    const auto steps = run_steps(job, 10, kPasses);
    if (!steps.ok()) continue;
    std::vector<MetaBuffer> meta(job.sources.size());
    Selector selector;
    StreamState state = initial_state(job.spec);
    for (const MadeUpStep& step : *steps) {
      // Post only what is asked for, then forget what the cursor has passed.
      auto selection = selector.step(job.spec, job.rows, state, meta);
      for (; selection.ok() && !selection->content;
           selection = selector.step(job.spec, job.rows, state, meta)) {
        ASSERT_FALSE(selection->needs.empty());
        for (const MetaNeed& need : selection->needs) {
          const uint64_t first = need.position / job.window_rows * job.window_rows;
          ASSERT_EQ(meta[need.source].find(need.pass, need.position), nullptr);
          meta[need.source].post(job.window(need.source, need.pass, first));
        }
      }
      ASSERT_TRUE(selection.ok());
      ASSERT_TRUE(same(*selection->content, step.content));
      ASSERT_TRUE(same(selection->after, step.after));
      state = selection->after;
      for (SourceIndex s = 0; s < meta.size(); ++s) {
        meta[s].trim(state.cursors[s].pass, state.cursors[s].position);
      }
    }
  }
}

// Lengths just over half a bin leave half of every bin empty: nothing presses harder on the cap.
TEST(SelectionProperty, TheDelayCapHoldsUnderTheWorstLengths) {
  for (uint64_t trial = 0; trial < 300; ++trial) {
    Dice dice("worst", trial);
    MadeUpJob job(100, dice.between(1, 5));
    job.spec.packing.slack_permille = dice.below(2000);
    job.spec.packing.max_delay_steps = dice.between(1, 3);
    std::vector<uint32_t> lengths(400);
    for (uint32_t& length : lengths) {
      length = dice.one_in(3) ? dice.between(1, 10) : dice.one_in(5) ? 100 : dice.between(51, 60);
    }
    job.add(lengths, EndPolicy::kDrop);
    for (StepIndex step = 1 + dice.below(9); dice.one_in(2); step += 1 + dice.below(9)) {
      job.spec.later_bins.push_back({step, dice.between(1, 9)});
    }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    const auto steps = run_steps(job, 1000);
    ASSERT_TRUE(steps.ok());
    for (const MadeUpStep& step : *steps) {
      ASSERT_LE(step.content.max_delay, job.spec.packing.max_delay_steps);
      uint64_t waiting = 0;
      for (const auto& carried : step.after.carried) waiting += carried.end - carried.first;
      ASSERT_LE(2 * waiting, (job.spec.bins_at(step.after.next_step) + 1) * 100u);
    }
  }
}

}  // namespace
}  // namespace overlord::plan
