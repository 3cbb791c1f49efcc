#include "overlord/plan/place/encoder_layer.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "overlord/base/rng.h"
#include "overlord/model/encoder_part.h"
#include "overlord/plan/cost/cost.h"
#include "overlord/plan/made_up_cost_test.h"
#include "overlord/plan/place/place_tree.h"

namespace overlord::plan {
namespace {

using model::BalanceMethod;
using model::EncoderPart;
using model::EncoderPartPtr;
using model::Layer;
using model::Plan;

constexpr uint32_t kContext = 256;

struct Case {
  std::vector<model::Axis> axes;
  std::string axis = "world";
  std::vector<std::string> broadcast = {};
  bool parity = true;
  uint32_t group_size = 0;
  uint32_t bins = 32;
  uint32_t size = 2;
  uint32_t images = 3;  // of 5 samples
  BalanceMethod balance = BalanceMethod::kLptSearch;
  model::Atoms atoms = model::Atoms::kSequences;
  uint32_t substeps = 1;
};

// Every bin holds documents of made-up lengths; some of them have images.
Selection made_up_step(uint64_t seed, const Case& world) {
  Selection selection;
  StepContent& content = selection.content.emplace();
  model::MetaColumn patches{"image_patches", {}};
  for (uint32_t bin = 0; bin < world.bins; ++bin) {
    uint32_t room = kContext;
    while (room > 0 && uniform_below(seed, bin, room, 8) > 0) {
      const auto count = static_cast<uint32_t>(1 + uniform_below(seed, bin, 1000 + room, room));
      const uint64_t position = content.segments.size();
      content.segments.push_back({{0, 0, position}, 0, count, 0, 0, count});
      const bool image = uniform_below(seed, position, 7, 5) < world.images;
      const uint64_t units = 1 + uniform_below(seed, position, 8, 900);
      patches.values.push_back(image ? static_cast<int64_t>(units) : 0);
      room -= count;
    }
    content.bin_ends.push_back(static_cast<uint32_t>(content.segments.size()));
  }
  content.columns.push_back(std::move(patches));
  return selection;
}

model::JobSpec spec_of(const Case& world) {
  model::JobSpec spec;
  spec.context = kContext;
  spec.bins = world.bins;
  spec.substeps = world.substeps;
  spec.columns = {"image_patches"};
  spec.strategy.has_cost = true;
  spec.strategy.cost = tokens_cost();
  spec.strategy.balance = BalanceMethod::kLptSearch;
  spec.strategy.atoms = world.atoms;
  model::EncoderStrategy encoder;
  encoder.axis = world.axis;
  encoder.cost = quadratic_cost("image_patches", 0, int64_t{1} << 40, int64_t{1} << 34);
  encoder.balance = world.balance;
  encoder.parity = world.parity;
  encoder.group_size = world.group_size;
  encoder.bytes_per_unit = 16;
  spec.strategy.encoder = encoder;
  return spec;
}

struct Planned {
  model::Mesh mesh;
  Plan plan;
  std::vector<int64_t> patches;  // by backbone segment
};

Planned plan_of(const Case& world, uint64_t seed, bool with_encoder = true) {
  const model::Mesh mesh = *model::Mesh::make(world.axes);
  model::JobSpec spec = spec_of(world);
  if (!with_encoder) spec.strategy.encoder.reset();
  model::DeliverySpec delivery;
  delivery.microbatch_size = world.size;
  delivery.broadcast_axes = world.broadcast;
  delivery.fill_empty = true;
  EXPECT_TRUE(check_fit(spec, mesh, delivery).ok());
  const Status fits = check_strategy(spec, mesh, delivery);
  EXPECT_TRUE(fits.ok()) << fits.message();
  Placer placer;
  const auto views = make_views(mesh, delivery, 1, spec.strategy);
  std::shared_ptr<const DGraph> graph;
  auto plan =
      build_plan({spec, mesh, delivery, views, {}}, 5, made_up_step(seed, world), &placer, &graph);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  const auto& values = graph->columns()[0].values;
  return {mesh, std::move(*plan), values};
}

std::vector<Case> cases() {
  return {
      {{{"dp", 4}}},
      {{{"pp", 2}, {"dp", 2}, {"tp", 2}}, "world", {"tp"}},
      {{{"pp", 2}, {"dp", 2}, {"tp", 2}}, "world", {}, false, 3},
      {{{"pp", 2}, {"dp", 2}, {"cp", 2}, {"tp", 2}}, "dp"},
      {{{"pp", 2}, {"dp", 2}, {"cp", 2}, {"tp", 2}}, "dp", {"tp", "cp"}},
      {{{"dp", 2}, {"cp", 2}, {"tp", 2}}, "cp", {"tp"}, true, 2},
      {{{"dp", 4}, {"tp", 2}}, "tp", {}, true, 0, 32, 2, 1, BalanceMethod::kZigzag},
      {{{"dp", 4}}, "world", {}, true, 0, 32, 1, 0},
      {{{"pp", 2}, {"dp", 4}},
       "world",
       {},
       true,
       0,
       32,
       2,
       3,
       BalanceMethod::kGreedy,
       model::Atoms::kSamples},
      {{{"dp", 8}}, "world", {}, true, 0, 32, 1, 1, BalanceMethod::kArrival},
      // Empty rows and microbatches, and parts of a step.
      {{{"pp", 2}, {"dp", 4}}, "world", {}, true, 0, 30, 4},
      {{{"dp", 2}, {"tp", 2}},
       "dp",
       {"tp"},
       true,
       0,
       24,
       2,
       3,
       BalanceMethod::kLptSearch,
       model::Atoms::kSequences,
       3},
  };
}

void check_layer(const Planned& planned) {
  const Layer& backbone = planned.plan.layers[0];
  const Layer& layer = *planned.plan.encoder();
  std::set<uint32_t> seen;
  for (uint32_t bin = 0; bin < layer.segments.size(); ++bin) {
    const uint32_t segment = layer.encoder->backbone_segment[bin];
    EXPECT_TRUE(seen.insert(segment).second);
    EXPECT_EQ(layer.segments[bin].id, backbone.segments[segment].id);
    EXPECT_EQ(layer.segments[bin].part, 1);
    EXPECT_EQ(layer.segments[bin].count, planned.patches[segment]);
    const auto at = std::upper_bound(backbone.bin_ends.begin(), backbone.bin_ends.end(), segment);
    const model::Placement& home = backbone.placements[at - backbone.bin_ends.begin()];
    EXPECT_EQ(layer.placements[bin].microbatch, home.microbatch);
    EXPECT_EQ(layer.encoder->backbone_of[bin], home.bucket);
    EXPECT_LT(layer.placements[bin].bucket, layer.buckets);
  }
  size_t images = 0;
  for (const int64_t units : planned.patches) images += units > 0 ? 1 : 0;
  EXPECT_EQ(seen.size(), images);
}

void check_exchanges(const Planned& planned) {
  const Layer& layer = *planned.plan.encoder();
  int64_t moved = 0, expected = 0;
  for (const model::Segment& segment : layer.segments) expected += int64_t{segment.count} * 16;
  ASSERT_EQ(layer.encoder->exchanges.size(), layer.microbatches);
  for (const model::Exchange& exchange : layer.encoder->exchanges) {
    for (uint32_t i = 0; i < exchange.sent.size(); ++i) {
      EXPECT_EQ(exchange.received[exchange.permutation[i]], exchange.sent[i]);
      EXPECT_EQ(exchange.inverse[exchange.permutation[i]], i);
    }
    for (const model::PairBytes& pair : exchange.pairs) moved += pair.bytes;
  }
  EXPECT_EQ(moved, expected);
}

void check_parity(const Planned& planned) {
  const Layer& layer = *planned.plan.encoder();
  std::vector<std::vector<uint32_t>> has(layer.microbatches,
                                         std::vector<uint32_t>(layer.buckets, 0));
  std::vector<uint32_t> real(layer.microbatches, 0);
  for (const model::Placement& place : layer.placements) {
    ++has[place.microbatch][place.bucket];
    ++real[place.microbatch];
  }
  for (const model::Dummy& dummy : layer.encoder->dummies) {
    EXPECT_EQ(has[dummy.microbatch][dummy.encoder]++, 0u);  // only who has none needs one
  }
  for (uint32_t m = 0; m < layer.microbatches; ++m) {
    for (const uint32_t count : has[m]) EXPECT_EQ(count > 0, real[m] > 0);
  }
}

using Sent = std::pair<SampleId, uint32_t>;  // the output of one sample: id and units

// All ranks' parts of one microbatch.
std::map<Rank, EncoderPartPtr> parts_of(const Planned& planned, const model::PlanIndex& index,
                                        uint32_t microbatch) {
  std::map<Rank, EncoderPartPtr> parts;
  const auto& views = planned.plan.layers[0].views->by_rank;
  for (Rank rank = 0; rank < planned.mesh.world_size(); ++rank) {
    parts[rank] = model::encoder_parts(planned.plan, index, views[rank].bucket, microbatch,
                                       std::span(&rank, 1))[0];
  }
  return parts;
}

// The all-to-all, with nothing but what the ranks were told.
std::map<Rank, std::vector<Sent>> exchanged(const std::map<Rank, EncoderPartPtr>& parts) {
  std::map<Rank, std::map<Rank, std::vector<Sent>>> wire;  // to, from
  for (const auto& [rank, part] : parts) {
    if (!part) continue;
    size_t next = 0;
    for (const model::PeerShare& share : part->sends) {
      int64_t units = 0;
      for (uint32_t i = 0; i < share.samples; ++i) {
        const model::Segment& sample = part->samples[part->send_order[next++]];
        wire[(*part->group)[share.peer]][rank].push_back({sample.id, sample.count});
        units += sample.count;
      }
      EXPECT_EQ(units, share.units);
    }
    EXPECT_EQ(next, part->send_order.size());
  }
  std::map<Rank, std::vector<Sent>> arrived;
  for (const auto& [rank, part] : parts) {
    if (!part) continue;
    std::vector<Sent> rows(part->received.size());
    size_t next = 0;
    EXPECT_EQ(part->receives_from.size(), wire[rank].size());
    for (const model::PeerShare& share : part->receives_from) {
      const auto& from = wire[rank][(*part->group)[share.peer]];
      EXPECT_EQ(from.size(), share.samples);
      int64_t units = 0;
      for (const Sent& sent : from) {
        rows[part->receive_order[next++]] = sent;
        units += sent.second;
      }
      EXPECT_EQ(units, share.units);
    }
    arrived[rank] = std::move(rows);
  }
  return arrived;
}

// Every rank that embeds gets the output of exactly its microbatch's images, in its order.
void check_delivery(const Planned& planned) {
  const auto index = model::PlanIndex::make(planned.plan, 1);
  const Layer& backbone = planned.plan.layers[0];
  for (uint32_t m = 0; m < backbone.microbatches; ++m) {
    const auto parts = parts_of(planned, *index, m);
    const auto arrived = exchanged(parts);
    for (Rank rank = 0; rank < planned.mesh.world_size(); ++rank) {
      const model::ClientView& view = backbone.views->by_rank[rank];
      const bool embeds = (view.fields & model::kFieldTokens) != 0;
      const EncoderPart* part = parts.at(rank).get();
      EXPECT_EQ(part != nullptr && part->receives, embeds);
      if (part == nullptr) continue;
      EXPECT_FALSE(part->dummy && !part->samples.empty());
      std::vector<Sent> expected;
      std::vector<uint32_t> documents;
      const model::BucketIndex& bucket = index->buckets[view.bucket];
      const uint32_t row = m * backbone.microbatch_size;
      const uint32_t first = row == 0 ? 0 : bucket.row_ends[row - 1];
      for (uint32_t o = first; o < bucket.row_ends[row + backbone.microbatch_size - 1]; ++o) {
        const int64_t units = planned.patches[bucket.segments[o]];
        if (units == 0 || !embeds) continue;
        expected.push_back({backbone.segments[bucket.segments[o]].id, units});
        documents.push_back(o - first);
      }
      EXPECT_EQ(arrived.at(rank), expected) << "rank " << rank << ", microbatch " << m;
      EXPECT_EQ(part->documents, documents);
    }
  }
}

TEST(EncoderLayer, HoldsEveryImageOnceAndDeliversItInOrder) {
  for (const Case& world : cases()) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const Planned planned = plan_of(world, seed);
      SCOPED_TRACE(planned.mesh.text() + " at " + world.axis + ", seed " + std::to_string(seed));
      ASSERT_NE(planned.plan.encoder(), nullptr);
      check_layer(planned);
      check_exchanges(planned);
      if (world.parity) {
        check_parity(planned);
      } else {
        EXPECT_TRUE(planned.plan.encoder()->encoder->dummies.empty());
      }
      check_delivery(planned);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(EncoderLayer, OnlyMovesAndIsPartOfThePlanHash) {
  for (const Case& world : cases()) {
    const Planned plain = plan_of(world, 3, false);
    const Planned both = plan_of(world, 3);
    const Planned again = plan_of(world, 3);
    EXPECT_EQ(both.plan.content_hash, plain.plan.content_hash);
    EXPECT_NE(both.plan.plan_hash, plain.plan.plan_hash);
    EXPECT_EQ(both.plan.plan_hash, again.plan.plan_hash);
    EXPECT_EQ(both.plan.layers[0].placements, plain.plan.layers[0].placements);
    EXPECT_EQ(plain.plan.encoder(), nullptr);
  }
}

// Plans that differ in nothing but one thing of the second layer have other hashes.
TEST(EncoderLayer, ThePlanHashKnowsAllOfTheLayer) {
  Case world{{{"dp", 4}}};
  world.images = 1;
  Case other = world;
  other.parity = false;
  const Planned with = plan_of(world, 3), without = plan_of(other, 3);
  EXPECT_EQ(with.plan.layers[1].placements, without.plan.layers[1].placements);
  EXPECT_FALSE(with.plan.layers[1].encoder->dummies.empty());
  EXPECT_NE(with.plan.plan_hash, without.plan.plan_hash);
  world.images = 5;
  int moved = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    other = world;
    other.balance = BalanceMethod::kLpt;
    const Planned a = plan_of(world, seed), b = plan_of(other, seed);
    const Layer &first = a.plan.layers[1], &second = b.plan.layers[1];
    const bool same = first.placements == second.placements;
    EXPECT_EQ(a.plan.plan_hash == b.plan.plan_hash, same);
    if (!same && first.microbatch_size == second.microbatch_size) ++moved;
  }
  EXPECT_GT(moved, 0);
}

TEST(EncoderLayer, GroupsHoldTheirOwnShare) {
  Case world{{{"dp", 8}}, "world", {}, false, 3};
  world.images = 5;
  const Planned planned = plan_of(world, 1);
  const Layer& layer = *planned.plan.encoder();
  // Dealt in arrival order in proportion to width: 3, 3 and 2 encoders.
  for (uint32_t m = 0; m < layer.microbatches; ++m) {
    std::vector<uint32_t> count(3, 0);
    uint32_t all = 0;
    for (const model::Placement& place : layer.placements) {
      if (place.microbatch == m) ++count[place.bucket / 3], ++all;
    }
    EXPECT_NEAR(count[0], all * 3 / 8.0, 1.5);
    EXPECT_NEAR(count[2], all * 2 / 8.0, 1.5);
  }
}

TEST(EncoderLayer, ReportsHowEvenItIs) {
  Case world{{{"pp", 2}, {"dp", 2}, {"tp", 2}}};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Planned planned = plan_of(world, seed);
    const model::PlanReport& report = *planned.plan.encoder()->report;
    EXPECT_EQ(report.consumers, 8u);
    EXPECT_GE(report.step_ns, report.lower_bound);
    EXPECT_GE(report.lower_bound, report.even_step_ns);
    EXPECT_LE(report.step_ns, report.arrival_step_ns);
    EXPECT_GT(report.limiting_sample_cost, 0);
  }
}

TEST(EncoderTable, PruningCountsPerLayer) {
  model::EncoderStrategy strategy;
  const model::Mesh mesh = *model::Mesh::make({{"pp", 2}, {"dp", 2}, {"cp", 2}, {"tp", 2}});
  model::DeliverySpec delivery;
  delivery.broadcast_axes = {"tp"};
  const auto views = make_views(mesh, delivery, 1);
  const auto world = make_encoder_table(strategy, mesh, delivery, *views);
  EXPECT_EQ(world->group.size(), 16u);  // everybody encodes, also where the text is broadcast
  EXPECT_EQ(world->receivers[1], (std::vector<Rank>{4, 6}));  // first stage, tp = 0
  strategy.axis = "dp";
  const auto dp = make_encoder_table(strategy, mesh, delivery, *views);
  EXPECT_EQ(dp->runners[0], (std::vector<Rank>{0, 2}));
  EXPECT_EQ(dp->group, (std::vector<Rank>{0, 2, 4, 6}));
  EXPECT_EQ(dp->place_of[8], model::kNoPlace);  // the last stage does not encode
  delivery.all_stages = true;
  EXPECT_EQ(make_encoder_table(strategy, mesh, delivery, *views)->runners[0],
            (std::vector<Rank>{0, 2, 8, 10}));
}

TEST(EncoderLayer, WhatCannotBeIsNamed) {
  const Case world{{{"dp", 4}}};
  const model::Mesh mesh = *model::Mesh::make(world.axes);
  const auto says = [&](model::JobSpec spec, const std::string& what) {
    const Status status = check_strategy(spec, mesh, {});
    EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
  };
  model::JobSpec spec = spec_of(world);
  spec.columns = {"audio_frames"};
  says(spec, "declares the metadata column 'image_patches'; allowed: tokens, audio_frames");
  spec = spec_of(world);
  spec.strategy.encoder->axis = "ep";
  says(spec, "strategy.encoder.distribute: the mesh dp=4 has no axis 'ep'");
  spec = spec_of(world);
  spec.strategy.encoder->module = "backbone";
  says(spec, "strategy.encoder.module");
  spec = spec_of(world);
  spec.strategy.encoder->balance = BalanceMethod::kVector;
  says(spec, "an encoder has one cost");
  spec = spec_of(world);
  spec.strategy.balance = BalanceMethod::kVector;
  says(spec, "strategy.further_costs");
}

// Two costs, one owner: both are evener than when only the first counts, and nothing is exchanged.
TEST(VectorStrategy, EvensOutBothCosts) {
  Case world{{{"dp", 8}}};
  world.bins = 128;
  const model::Mesh mesh = *model::Mesh::make(world.axes);
  model::DeliverySpec delivery;
  const auto imbalance = [](const model::PlanReport& report) {
    return static_cast<double>(report.consumer_max) * report.consumers /
           static_cast<double>(report.total);
  };
  for (const auto level : {model::BalanceLevel::kBucket, model::BalanceLevel::kInterleaved}) {
    model::JobSpec spec = spec_of(world);
    const model::CostModel images = spec.strategy.encoder->cost;
    spec.strategy.encoder.reset();
    spec.strategy.level = level;
    spec.strategy.further_costs = {images};
    const auto reports = [&](BalanceMethod method) {
      spec.strategy.balance = method;
      Placer placer;
      return *build_plan({spec, mesh, delivery, make_views(mesh, delivery, 1), {}}, 0,
                         made_up_step(9, world), &placer);
    };
    const Plan both = reports(BalanceMethod::kVector);
    const Plan first = reports(BalanceMethod::kArrival);
    ASSERT_EQ(both.layers.size(), 1u);
    ASSERT_EQ(both.layers[0].further_reports.size(), 1u);
    EXPECT_LT(imbalance(*both.layers[0].report), 1.02);
    EXPECT_LT(imbalance(both.layers[0].further_reports[0]), 1.05);
    EXPECT_GT(imbalance(first.layers[0].further_reports[0]), 1.05);
    EXPECT_GE(both.layers[0].further_reports[0].consumer_max,
              both.layers[0].further_reports[0].lower_bound);
    EXPECT_EQ(both.content_hash, first.content_hash);
  }
}

}  // namespace
}  // namespace overlord::plan
