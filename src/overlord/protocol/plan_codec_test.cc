#include "overlord/protocol/plan_codec.h"

#include <gtest/gtest.h>

#include "overlord/model/plan_index.h"
#include "overlord/protocol/made_up_messages_test.h"

namespace overlord::protocol {
namespace {

struct Case {
  PlanShape shape;
  std::shared_ptr<const model::ViewTable> views;
  PlanContext context;
  model::PlanPtr plan;
};

Case make_case(uint64_t seed, PlanShape shape = {}) {
  RandomFields random(seed);
  Case made{shape, nullptr, {}, nullptr};
  made.views = random_views(random, shape);
  made.context = {{made.views}, shape.sources};
  made.plan = random_plan(seed, shape, made.views);
  return made;
}

std::string damaged(const Case& made, const std::function<void(model::Plan*)>& damage) {
  model::Plan plan = *made.plan;
  damage(&plan);
  return encode_plan(plan);
}

bool equal_rows(const std::vector<model::Segment>& a, const std::vector<model::Segment>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0);
}

// The segments of a bucket in the order of their ordinals.
std::vector<model::Segment> bucket_segments(const model::Plan& plan, uint32_t sources,
                                            uint32_t bucket) {
  std::vector<model::Segment> out;
  const auto index = model::PlanIndex::make(plan, sources);
  for (const uint32_t s : index->buckets[bucket].segments) {
    out.push_back(plan.layers.front().segments[s]);
  }
  return out;
}

TEST(PlanCodec, PlansSurviveARoundTrip) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    PlanShape shape;
    shape.uneven = seed % 2 == 1;
    const Case made = make_case(seed, shape);
    const std::string bytes = encode_plan(*made.plan);
    const auto decoded = decode_plan(bytes, made.context);
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    EXPECT_EQ(encode_plan(**decoded), bytes);
    const model::Layer& before = made.plan->layers.front();
    const model::Layer& after = (*decoded)->layers.front();
    EXPECT_EQ(after.views, made.views);  // the known table itself
    EXPECT_TRUE(equal_rows(after.segments, before.segments));
    EXPECT_EQ(after.bin_ends, before.bin_ends);
    EXPECT_EQ(after.placements, before.placements);
    EXPECT_EQ(after.capacities, before.capacities);
    EXPECT_EQ((*decoded)->plan_hash, made.plan->plan_hash);
    EXPECT_EQ((*decoded)->state_after->cursors, made.plan->state_after->cursors);
  }
}

TEST(PlanCodec, SeveralLayersTravelTogether) {
  const Case made = make_case(3);
  model::Plan plan = *made.plan;
  plan.layers.push_back(make_case(4).plan->layers.front());
  plan.layers.back().views = made.views;
  const std::string bytes = encode_plan(plan);
  const auto decoded = decode_plan(bytes, made.context);
  ASSERT_TRUE(decoded.ok()) << decoded.status().message();
  EXPECT_EQ((*decoded)->layers.size(), 2u);
  EXPECT_EQ(encode_plan(**decoded), bytes);
}

TEST(PlanCodec, ViewsSurviveARoundTrip) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::string bytes = encode_views(*make_case(seed).views);
    const auto decoded = decode_views(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    EXPECT_EQ((*decoded)->by_rank, make_case(seed).views->by_rank);
    EXPECT_EQ(encode_views(**decoded), bytes);
  }
}

TEST(PlanCodec, AnUnknownTableOfViewsIsNamed) {
  const Case made = make_case(1);
  const auto decoded =
      decode_plan(encode_plan(*made.plan), {{make_case(2).views}, made.shape.sources});
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.status().code(), Code::kVersionMismatch);
  EXPECT_NE(decoded.status().message().find(made.views->digest.hex()), std::string::npos);
}

TEST(PlanCodec, ABucketsPartKeepsItsSegmentsAndAllHashes) {
  for (const bool uneven : {false, true}) {
    PlanShape shape;
    shape.uneven = uneven;
    const Case made = make_case(7, shape);
    for (uint32_t own = 0; own < shape.buckets; ++own) {
      const auto decoded = decode_plan(encode_plan(plan_for_bucket(*made.plan, own)), made.context);
      ASSERT_TRUE(decoded.ok()) << decoded.status().message();
      for (uint32_t bucket = 0; bucket < shape.buckets; ++bucket) {
        const auto whole = bucket_segments(*made.plan, shape.sources, bucket);
        const auto part = bucket_segments(**decoded, shape.sources, bucket);
        EXPECT_TRUE(bucket == own ? equal_rows(part, whole) : part.empty());
      }
      EXPECT_EQ((*decoded)->plan_hash, made.plan->plan_hash);
      EXPECT_EQ((*decoded)->content_hash, made.plan->content_hash);
      EXPECT_EQ((*decoded)->target_tokens, made.plan->target_tokens);
      EXPECT_EQ((*decoded)->state_after, nullptr) << "for clients, who get it elsewhere";
    }
  }
}

TEST(PlanCodec, PartsAreSmall) {
  PlanShape shape;
  shape.ranks = shape.buckets = 64;
  shape.microbatches = 8;
  const Case made = make_case(9, shape);
  const size_t whole = encode_plan(*made.plan).size();
  EXPECT_LT(encode_plan(plan_for_clients(*made.plan)).size(), 1024u);
  EXPECT_LT(encode_plan(plan_for_bucket(*made.plan, 5)).size(), whole / 32);
}

// What its constructor lays out by, and what it tells of each: the same numbers as in the whole.
TEST(PlanCodec, ABucketsPartOfSlicesHasTheirNumbers) {
  PlanShape shape;
  shape.uneven = true;
  const Case made = make_case(5, shape);
  model::Plan plan = *made.plan;
  model::Layer& layer = plan.layers.front();
  auto hdp = std::make_shared<model::HdpLayer>();
  hdp->groups.emplace_back().ranks = {0};
  hdp->sequences.resize(1);
  for (uint32_t s = 0; s < layer.segments.size(); ++s) hdp->parts.push_back({0, 0, 100 + s});
  hdp->shares.assign(layer.placements.size(), model::HdpShare{});
  layer.hdp = hdp;
  const auto whole = model::PlanIndex::make(plan, shape.sources);
  for (uint32_t bucket = 0; bucket < shape.buckets; ++bucket) {
    const auto decoded = decode_plan(encode_plan(plan_for_bucket(plan, bucket)), made.context);
    ASSERT_TRUE(decoded.ok()) << decoded.status().message();
    const auto part = model::PlanIndex::make(**decoded, shape.sources);
    EXPECT_EQ(part->buckets[bucket].bins, whole->buckets[bucket].bins);
    const auto& own = part->buckets[bucket].segments;
    ASSERT_EQ(own.size(), whole->buckets[bucket].segments.size());
    for (size_t i = 0; i < own.size(); ++i) {
      EXPECT_EQ((*decoded)->layers.front().hdp->parts[own[i]].offset,
                hdp->parts[whole->buckets[bucket].segments[i]].offset);
    }
  }
  layer.hdp = nullptr;
  auto cut = std::make_shared<model::HdpLayer>();
  cut->bins = {0};
  layer.hdp = cut;
  EXPECT_FALSE(decode_plan(encode_plan(plan), made.context).ok()) << "parts of other bins";
}

TEST(PlanCodec, WhatAnIndexCannotBeBuiltFromIsRefused) {
  PlanShape shape;
  shape.uneven = true;
  const Case made = make_case(10, shape);
  using Damage = std::function<void(model::Layer*)>;
  const std::pair<const char*, Damage> damages[] = {
      {"a seat twice", [](auto* l) { l->placements[0] = l->placements[1]; }},
      {"a bucket too many", [](auto* l) { l->placements[0].bucket = l->buckets; }},
      {"a microbatch too many", [](auto* l) { l->placements[0].microbatch = l->microbatches; }},
      {"a slot too many", [](auto* l) { l->placements[0].slot = l->microbatch_size; }},
      {"a bin without a place", [](auto* l) { l->placements.pop_back(); }},
      {"falling ends", [](auto* l) { l->bin_ends[0] = l->bin_ends.back() + 1; }},
      {"too few segments", [](auto* l) { l->segments.pop_back(); }},
      {"a length missing", [](auto* l) { l->capacities.pop_back(); }},
      {"more buckets than ranks", [](auto* l) { l->buckets = 9; }},
      {"too many seats", [](auto* l) { l->microbatches = 0xffffffffu; }},
      {"no bucket", [](auto* l) { l->buckets = 0; }},
      {"no views", [](auto* l) { l->views = nullptr; }},
      {"a source too many", [](auto* l) { l->segments[0].id.source = 5; }},
      {"an impossible length", [](auto* l) { l->segments[0].count = 0xffffffffu; }},
      {"a row of the bucket missing",
       [](auto* l) {
         l->placements.pop_back();
         l->capacities.pop_back();
         l->bin_ends.pop_back();
         l->segments.resize(l->bin_ends.back());
       }},
  };
  for (const auto& [name, damage] : damages) {
    const auto decoded = decode_plan(
        damaged(made, [&](model::Plan* plan) { damage(&plan->layers.front()); }), made.context);
    ASSERT_FALSE(decoded.ok()) << name;
    EXPECT_EQ(decoded.status().code(), Code::kBadData) << name;
  }
  EXPECT_FALSE(decode_plan(damaged(made, [](auto* p) { p->layers.clear(); }), made.context).ok());
  EXPECT_FALSE(decode_plan(damaged(made,
                                   [](model::Plan* plan) {
                                     auto state = *plan->state_after;
                                     state.cursors.emplace_back();
                                     plan->state_after =
                                         std::make_shared<const model::StreamState>(state);
                                   }),
                           made.context)
                   .ok());
}

TEST(PlanCodec, ANewerFormatIsRefusedByBothVersions) {
  const Case made = make_case(11);
  std::string bytes = encode_plan(*made.plan);
  bytes[0] = 9;
  const auto decoded = decode_plan(bytes, made.context);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.status().code(), Code::kVersionMismatch);
  EXPECT_NE(decoded.status().message().find("format 9"), std::string::npos);
}

// The bytes are a format: who changes them raises kPlanCodecFormat and this.
TEST(PlanCodec, BytesAreGolden) {
  EXPECT_EQ(digest_of(encode_plan(*make_case(12).plan)).hex(), "3f4895e9e907d645a67fecea8474598c");
  EXPECT_EQ(digest_of(encode_views(*make_case(12).views)).hex(),
            "537d9781e1c6a5522dc50b067dcea23d");
}

}  // namespace
}  // namespace overlord::protocol
