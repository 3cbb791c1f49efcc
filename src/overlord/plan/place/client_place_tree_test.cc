#include "overlord/plan/place/client_place_tree.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace overlord::plan {
namespace {

ClientPlaceTree tree_of(std::vector<model::Axis> axes) {
  return ClientPlaceTree(*model::Mesh::make(std::move(axes)));
}

// The ranks of every consumer, ascending.
std::vector<std::vector<Rank>> nodes_at(const ClientPlaceTree& tree, Rank ranks,
                                        std::string_view axis) {
  std::vector<std::vector<Rank>> nodes(tree.count_at(axis));
  for (Rank rank = 0; rank < ranks; ++rank) {
    nodes.at(tree.consumer_of(rank, axis)).push_back(rank);
  }
  return nodes;
}

TEST(ClientPlaceTree, ConsumersOfEveryAxis) {
  const auto tree = tree_of({{"pp", 2}, {"dp", 4}, {"cp", 2}, {"tp", 2}});
  EXPECT_EQ(tree.count_at("dp"), 4u);
  EXPECT_EQ(tree.count_at("cp"), 8u);
  EXPECT_EQ(tree.count_at("world"), 32u);
  EXPECT_EQ(tree.count_at("tp"), 8u);
  const auto nodes = nodes_at(tree, 32, "dp");
  EXPECT_EQ(nodes[1], (std::vector<Rank>{4, 5, 6, 7, 20, 21, 22, 23}));
  EXPECT_EQ(nodes_at(tree, 32, "cp")[3], (std::vector<Rank>{6, 7, 22, 23}));
  EXPECT_EQ(nodes_at(tree, 32, "world")[17], std::vector<Rank>{17});
}

TEST(ClientPlaceTree, EveryConsumerHasAsManyRanksAtEveryAxisAndOrder) {
  for (const auto& axes :
       {std::vector<model::Axis>{{"tp", 2}, {"cp", 3}, {"dp", 4}, {"pp", 2}},
        std::vector<model::Axis>{{"dp_replicate", 2}, {"dp_shard", 3}, {"ep", 2}},
        std::vector<model::Axis>{{"tp", 5}}}) {
    const Rank ranks = model::Mesh::make(axes)->world_size();
    for (const std::string axis : {"dp", "cp", "world"}) {
      const auto nodes = nodes_at(tree_of(axes), ranks, axis);
      for (const auto& node : nodes) EXPECT_EQ(node.size(), ranks / nodes.size());
    }
  }
}

TEST(ClientPlaceTree, UnknownAxesAreRefusedWithTheKnownOnes) {
  const auto tree = tree_of({{"dp", 2}, {"ep", 2}});
  EXPECT_TRUE(tree.check_axis("ep").ok());
  const Status status = tree.check_axis("dq");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("world, dp, cp, ep"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace overlord::plan
