#include "overlord/plan/place/hdp_placement.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "overlord/plan/hybrid/hdp.h"
#include "overlord/plan/place/made_up_job_test.h"
#include "overlord/plan/place/place_tree.h"

namespace overlord::plan {
namespace {

using model::HdpGroup;
using model::HdpLayer;
using model::Segment;

model::HdpModel small_model(uint32_t capacity) {
  model::HdpModel model;
  model.square_fs = 90'000;
  model.token_fs = 2'000'000'000;
  model.activation_token_bytes = 1000;
  model.layers = 4;
  model.capacity = capacity;
  model.to_host_per_s = 1'000'000'000;
  model.from_host_per_s = 1'000'000'000;
  model.ring_token_bytes = 100;
  model.ring_per_s = 1'000'000'000;
  return model;
}

// Two sources of text-like lengths, the second one masked.
MadeUpJob job_of(uint64_t key, uint32_t align, uint32_t substeps, model::Packing packing) {
  MadeUpJob job(512, 8 * substeps);
  job.spec.align = align;
  job.spec.substeps = substeps;
  job.spec.packing.method = packing;
  job.spec.strategy.axis = "cp";
  job.spec.strategy.atoms = model::Atoms::kSlices;
  job.spec.strategy.hdp.model =
      small_model(64 + static_cast<uint32_t>(uniform_below(key, 9, 9, 40)));
  job.spec.strategy.hdp.offload = uniform_below(key, 8, 8, 2) == 0;
  job.add(text_lengths(key, 400, 900), model::EndPolicy::kRepeat);
  job.add(text_lengths(key + 1, 400, 700), model::EndPolicy::kRepeat);
  for (const uint32_t length : job.sources[1].lengths) {
    std::vector<model::LossSpan>& spans = job.sources[1].spans.emplace_back();
    for (uint32_t at = 0; at + 3 < length; at += 11) spans.push_back({at, 3});
  }
  return job;
}

struct Placed {
  model::Plan plan;
  StepContent content;
};

std::vector<Placed> place_steps(const MadeUpJob& job, const model::Mesh& mesh, uint64_t steps) {
  const auto meta = job.post(3);
  Selector selector;
  Placer placer;
  std::vector<Placed> out;
  model::StreamState state = initial_state(job.spec);
  const model::DeliverySpec delivery;
  const auto views = make_views(mesh, delivery, 1, job.spec.strategy);
  while (!state.ended && out.size() < steps) {
    Selection selection = *selector.step(job.spec, job.rows, state, meta);
    const StepContent content = *selection.content;
    const LossFinder loss(state, meta);
    const model::StreamState after = selection.after;
    Result<model::Plan> plan = build_plan({job.spec, mesh, delivery, views, {}, &loss},
                                          state.next_step, std::move(selection), &placer);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    if (!plan.ok()) return out;
    out.push_back({std::move(*plan), content});
    state = after;
  }
  return out;
}

// Targets of a segment counted token by token.
uint32_t targets_by_hand(const MadeUpJob& job, const Segment& segment) {
  const uint32_t length = job.held_length(segment.id);
  uint32_t targets = 0;
  for (uint32_t i = 0; i < segment.count; ++i) {
    const uint32_t target = segment.first + i + 1;
    const bool inside = i + 1 < segment.count || (segment.flags & Segment::kContinues) != 0;
    if (!inside || target >= length) continue;
    if (segment.id.source == 0) {
      ++targets;
      continue;
    }
    for (const model::LossSpan& span : job.sources[1].spans[segment.id.position]) {
      if (target >= span.first && target < span.first + span.count) ++targets;
    }
  }
  return targets;
}

// Over all consumers the parts of a sequence are the sequence, once and in order of their chunks.
void check_parts(const MadeUpJob& job, const Placed& placed) {
  const model::Layer& layer = placed.plan.layers.front();
  const HdpLayer& hdp = *layer.hdp;
  ASSERT_EQ(hdp.sequences.size(), placed.content.segments.size());
  std::vector<std::map<uint32_t, Segment>> parts(hdp.sequences.size());  // by chunk
  uint64_t targets = 0;
  for (size_t i = 0; i < layer.segments.size(); ++i) {
    const model::HdpPart& part = hdp.parts[i];
    const Segment& segment = layer.segments[i];
    ASSERT_TRUE(parts[part.sequence].emplace(part.chunk, segment).second);
    ASSERT_EQ(segment.first, hdp.sequences[part.sequence].first + part.offset);
    ASSERT_EQ(segment.targets, targets_by_hand(job, segment));
    targets += segment.targets;
  }
  EXPECT_EQ(targets, placed.plan.target_tokens);
  for (size_t s = 0; s < parts.size(); ++s) {
    const Segment& whole = placed.content.segments[s];
    uint32_t next = whole.first;
    uint16_t flags = Segment::kContinues;
    for (const auto& [chunk, segment] : parts[s]) {
      ASSERT_EQ(segment.id, whole.id);
      ASSERT_EQ(segment.first, next);
      ASSERT_EQ(flags, Segment::kContinues) << "only the last part may end the sequence";
      next += segment.count;
      flags = segment.flags;
    }
    ASSERT_EQ(next, whole.first + whole.count);
    ASSERT_EQ(flags, whole.flags);
  }
}

// Members agree on a group, meet their common groups in one order, and hold what they can.
void check_bins(const MadeUpJob& job, const model::Plan& plan) {
  const model::Layer& layer = plan.layers.front();
  const HdpLayer& hdp = *layer.hdp;
  std::vector<uint32_t> last_group(layer.buckets, 0);
  std::vector<uint32_t> counts(layer.buckets, 0);
  std::set<std::pair<uint32_t, uint32_t>> seated;
  for (uint32_t bin = 0; bin < layer.placements.size(); ++bin) {
    const model::Placement& place = layer.placements[bin];
    const model::HdpShare& share = hdp.shares[bin];
    const HdpGroup& group = hdp.groups[share.group];
    ASSERT_EQ(group.ranks[share.member], place.bucket);
    ASSERT_TRUE(seated.emplace(share.group, share.member).second);
    ASSERT_EQ(place.microbatch, counts[place.bucket]++);
    ASSERT_TRUE(place.microbatch == 0 || share.group > last_group[place.bucket]);
    last_group[place.bucket] = share.group;
    uint64_t row = 0;
    for (uint32_t s = layer.bin_begin(bin); s < layer.bin_ends[bin]; ++s) {
      row += round_up(layer.segments[s].count, job.spec.align);
    }
    ASSERT_LE(row, layer.capacities[bin]);
    ASSERT_EQ(layer.capacities[bin] % job.spec.align, 0u);
    const auto needed =
        offload_needed(job.spec.strategy.hdp.model, static_cast<uint32_t>(row), 1000);
    ASSERT_TRUE(needed.has_value() && *needed <= group.offload_permille);
    ASSERT_TRUE(job.spec.strategy.hdp.offload || row <= job.spec.strategy.hdp.model.capacity);
  }
  EXPECT_EQ(counts, layer.bucket_microbatches);
  size_t members = 0;
  for (const HdpGroup& group : hdp.groups) members += group.ranks.size();
  EXPECT_EQ(seated.size(), members);
}

void check_substeps(const Placed& placed, uint32_t substeps) {
  const model::Layer& layer = placed.plan.layers.front();
  const uint32_t each = static_cast<uint32_t>(placed.content.bin_ends.size()) / substeps;
  std::map<uint32_t, std::set<uint32_t>> consumers;  // by substep
  for (const HdpGroup& group : layer.hdp->groups) {
    consumers[group.substep].insert(group.ranks.begin(), group.ranks.end());
    for (const uint32_t sequence : group.sequences) {
      const uint32_t first =
          group.substep == 0 ? 0 : placed.content.bin_ends[group.substep * each - 1];
      ASSERT_GE(sequence, first);
      ASSERT_LT(sequence, placed.content.bin_ends[(group.substep + 1) * each - 1]);
    }
  }
  ASSERT_EQ(consumers.size(), substeps);
  for (const auto& [substep, who] : consumers) ASSERT_EQ(who.size(), layer.buckets);
}

TEST(HdpPlacement, SlicesAreTheStepOnceAndRanksAgree) {
  const std::vector<std::vector<model::Axis>> meshes = {
      {{"dp", 2}, {"cp", 4}}, {{"pp", 2}, {"dp", 3}, {"cp", 4}, {"tp", 2}}, {{"dp", 16}}};
  uint32_t cut = 0, uneven = 0;
  for (uint64_t trial = 0; trial < 24; ++trial) {
    const uint64_t key = derive_key(11, "hdp", trial);
    const uint32_t align = trial % 3 == 0 ? 1 : 8;
    const uint32_t substeps = trial % 4 == 3 ? 2 : 1;
    const auto packing = trial % 2 == 0 ? model::Packing::kBestFit : model::Packing::kConcat;
    const MadeUpJob job = job_of(key, align, substeps, packing);
    const model::Mesh mesh = *model::Mesh::make(meshes[trial % meshes.size()]);
    ASSERT_TRUE(check_strategy(job.spec, mesh, {}).ok())
        << check_strategy(job.spec, mesh, {}).message();
    for (const Placed& placed : place_steps(job, mesh, 3)) {
      check_parts(job, placed);
      check_bins(job, placed.plan);
      check_substeps(placed, substeps);
      const model::Layer& layer = placed.plan.layers.front();
      for (const HdpGroup& group : layer.hdp->groups) cut += group.ranks.size() > 1;
      uneven +=
          std::set<uint32_t>(layer.bucket_microbatches.begin(), layer.bucket_microbatches.end())
              .size() > 1;
      EXPECT_GE(layer.report->consumer_max, layer.report->lower_bound);
      EXPECT_GE(layer.report->arrival_step_ns, layer.report->step_ns);
    }
  }
  EXPECT_GT(cut, 50u);
  EXPECT_GT(uneven, 10u);
}

TEST(HdpPlacement, ContentIsThatOfArrivalOrderAndTheGroupsAreHashed) {
  const MadeUpJob job = job_of(5, 8, 1, model::Packing::kBestFit);
  const model::Mesh mesh = *model::Mesh::make({{"dp", 2}, {"cp", 4}});
  const model::Mesh wider = *model::Mesh::make({{"dp", 4}, {"cp", 4}});
  MadeUpJob plain = job_of(5, 8, 1, model::Packing::kBestFit);
  plain.spec.strategy = {};
  const auto sliced = place_steps(job, mesh, 3);
  const auto others = place_steps(job, wider, 3);
  const auto whole = place_steps(plain, mesh, 3);
  for (size_t step = 0; step < sliced.size(); ++step) {
    EXPECT_EQ(sliced[step].plan.content_hash, whole[step].plan.content_hash);
    EXPECT_EQ(sliced[step].plan.content_hash, others[step].plan.content_hash);
    EXPECT_NE(sliced[step].plan.plan_hash, others[step].plan.plan_hash);
  }
  MadeUpJob offloaded = job_of(5, 8, 1, model::Packing::kBestFit);
  offloaded.spec.strategy.hdp.method = model::HdpMethod::kNaive;
  EXPECT_NE(place_steps(offloaded, mesh, 1)[0].plan.plan_hash, sliced[0].plan.plan_hash);
}

TEST(HdpPlacement, AStepWithFewerSequencesThanRanksEndsOnEveryRank) {
  MadeUpJob job(64, 1);
  job.spec.strategy.axis = "cp";
  job.spec.strategy.atoms = model::Atoms::kSlices;
  job.spec.strategy.hdp.model = small_model(64);
  job.add({60, 50, 40}, model::EndPolicy::kDrop);
  const model::Mesh mesh = *model::Mesh::make({{"dp", 4}, {"cp", 2}});
  for (const Placed& placed : place_steps(job, mesh, 3)) {
    const model::Layer& layer = placed.plan.layers.front();
    EXPECT_EQ(layer.bucket_microbatches, std::vector<uint32_t>(8, 1));
    check_parts(job, placed);
    check_bins(job, placed.plan);
  }
}

TEST(HdpPlacement, RefusesWhatCannotBeDealt) {
  const MadeUpJob good = job_of(5, 8, 1, model::Packing::kBestFit);
  const model::Mesh mesh = *model::Mesh::make({{"dp", 2}, {"cp", 4}});
  const auto refused = [&](auto change, const std::string& says) {
    model::JobSpec spec = good.spec;
    model::DeliverySpec delivery;
    change(&spec, &delivery);
    const Status status = check_strategy(spec, mesh, delivery);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(says), std::string::npos) << status.message();
  };
  refused([](auto* spec, auto*) { spec->strategy.axis = "dp"; }, "allowed: cp");
  refused([](auto* spec, auto*) { spec->strategy.has_cost = true; }, "leave cost and balance out");
  refused([](auto* spec, auto*) { spec->strategy.group_size = 2; }, "group_size");
  refused([](auto*, auto* delivery) { delivery->microbatch_size = 2; }, "allowed: 1");
  refused([](auto*, auto* delivery) { delivery->broadcast_axes = {"cp"}; }, "broadcast");
  refused([](auto* spec, auto*) { spec->context = 1 << 20; }, "does not fit all 8 ranks");
  refused([](auto* spec, auto*) { spec->strategy.hdp.model.capacity = 4; }, "four times align");
}

}  // namespace
}  // namespace overlord::plan
