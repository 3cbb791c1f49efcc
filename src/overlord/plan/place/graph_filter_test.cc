#include "overlord/plan/place/graph_filter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "overlord/base/rng.h"

namespace overlord::plan {
namespace {

struct Made {
  std::vector<model::Segment> segments;
  DGraph graph;
};

Made make_up(uint64_t seed) {
  std::vector<model::Segment> segments;
  std::vector<uint32_t> ends;
  model::MetaColumn patches{"image_patches", {}};
  for (uint32_t bin = 0; bin < 12; ++bin) {
    const uint64_t documents = uniform_below(seed, bin, 0, 4);
    for (uint64_t d = 0; d < documents; ++d) {
      model::Segment segment;
      segment.id = {static_cast<uint32_t>(uniform_below(seed, bin, 4 * d + 1, 3)), 0,
                    segments.size()};
      segment.count = static_cast<uint32_t>(1 + uniform_below(seed, bin, 4 * d + 2, 100));
      segments.push_back(segment);
      patches.values.push_back(
          std::max<int64_t>(0, static_cast<int64_t>(uniform_below(seed, bin, 4 * d + 3, 40)) - 20));
    }
    ends.push_back(static_cast<uint32_t>(segments.size()));
  }
  DGraph graph(segments, ends, {4, 3, 1});
  graph.set_columns({patches});
  for (uint32_t bin = 0; bin < 12; ++bin) graph.put(bin, bin % 4, bin / 4, EdgeOp::kDeal);
  graph.put(0, 3, 2, EdgeOp::kOrder);
  return {std::move(segments), std::move(graph)};
}

TEST(GraphFilter, SubgraphsHoldExactlyWhatMeetsTheConditions) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Made made = make_up(seed);
    for (const char* text : {"<", "<=", "=", "!=", ">=", ">"}) {
      SampleFilter filter{SourceIndex{1}, {{"image_patches", *comparison_of(text), 3}}};
      const auto sub = filter_graph(made.graph, made.segments, filter);
      ASSERT_TRUE(sub.ok());
      for (uint32_t i = 0; i < made.segments.size(); ++i) {
        const int64_t value = made.graph.columns()[0].values[i];
        const std::string is = text;
        const bool wanted = is == "<"    ? value < 3
                            : is == "<=" ? value <= 3
                            : is == "="  ? value == 3
                            : is == "!=" ? value != 3
                            : is == ">=" ? value >= 3
                                         : value > 3;
        EXPECT_EQ(sub->contains(i), wanted && made.segments[i].id.source == 1) << text << i;
      }
      EXPECT_TRUE(std::is_sorted(sub->samples().begin(), sub->samples().end()));
    }
  }
}

TEST(GraphFilter, ConditionsAddUpAndTokensAreAColumn) {
  const Made made = make_up(2);
  const SampleFilter filter{
      {}, {{"tokens", Comparison::kGreater, 30}, {"image_patches", Comparison::kEqual, 0}}};
  const auto sub = filter_graph(made.graph, made.segments, filter);
  ASSERT_TRUE(sub.ok());
  EXPECT_FALSE(sub->samples().empty());
  for (const uint32_t i : sub->samples()) {
    EXPECT_GT(made.segments[i].count, 30u);
    EXPECT_EQ(made.graph.columns()[0].values[i], 0);
  }
  const auto all = filter_graph(made.graph, made.segments, {});
  EXPECT_EQ(all->samples().size(), made.segments.size());
}

TEST(GraphFilter, EdgesAreThoseOfItsSamplesAndTheirBins) {
  const Made made = make_up(4);
  const auto all = filter_graph(made.graph, made.segments, {});
  size_t filled = 0;
  uint32_t begin = 0;
  for (const uint32_t end : made.graph.bin_ends()) {
    filled += end > begin;
    begin = end;
  }
  const size_t moved = made.graph.bin_ends()[0] > 0 ? 1 : 0;
  EXPECT_EQ(all->edges().size(), made.segments.size() + filled + moved);
  const SampleFilter filter{{}, {{"image_patches", Comparison::kGreater, 0}}};
  const auto images = filter_graph(made.graph, made.segments, filter);
  for (const Edge& edge : images->edges()) {
    const bool sample = made.graph.kind_of(edge.from) == NodeKind::kSample;
    EXPECT_TRUE(!sample || images->contains(edge.from));
  }
  EXPECT_LT(images->edges().size(), all->edges().size());
}

TEST(GraphFilter, AnUnknownColumnIsRefusedWithThoseThatAre) {
  const Made made = make_up(1);
  const auto refused =
      filter_graph(made.graph, made.segments, {{}, {{"audio", Comparison::kEqual, 1}}});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("tokens, image_patches"), std::string::npos);
  EXPECT_FALSE(comparison_of("~").ok());
}

}  // namespace
}  // namespace overlord::plan
