#include "overlord/plan/client_place_tree.h"

#include <gtest/gtest.h>

#include <set>

namespace overlord::plan {
namespace {

ClientPlaceTree tree_of(std::vector<model::Axis> axes, uint32_t per_host = 8) {
  return ClientPlaceTree(*model::Mesh::make(std::move(axes)), per_host, 1);
}

TEST(ClientPlaceTree, ConsumersOfEveryAxis) {
  const auto tree = tree_of({{"pp", 2}, {"dp", 4}, {"cp", 2}, {"tp", 2}});
  EXPECT_EQ(tree.count_at("dp"), 4u);
  EXPECT_EQ(tree.count_at("cp"), 8u);
  EXPECT_EQ(tree.count_at("world"), 32u);
  EXPECT_EQ(tree.count_at("tp"), 8u);
  EXPECT_EQ(tree.hosts(), 4u);
  const auto nodes = tree.nodes_at("dp");
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_EQ(nodes[1].name, "dp=1");
  EXPECT_EQ(nodes[1].ranks, (std::vector<Rank>{4, 5, 6, 7, 20, 21, 22, 23}));
  EXPECT_EQ(nodes[1].hosts, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(tree.nodes_at("cp")[3].name, "dp=1,cp=1");
  EXPECT_EQ(tree.nodes_at("world")[17].name, "rank=17");
}

TEST(ClientPlaceTree, NodesPartTheRanksAtEveryAxisAndOrder) {
  for (const auto& axes :
       {std::vector<model::Axis>{{"tp", 2}, {"cp", 3}, {"dp", 4}, {"pp", 2}},
        std::vector<model::Axis>{{"dp_replicate", 2}, {"dp_shard", 3}, {"ep", 2}},
        std::vector<model::Axis>{{"tp", 5}}}) {
    const auto tree = tree_of(axes, 4);
    for (const std::string axis : {"dp", "cp", "world"}) {
      std::set<Rank> seen;
      for (const PlaceNode& node : tree.nodes_at(axis)) {
        EXPECT_FALSE(node.ranks.empty());
        for (const Rank rank : node.ranks) {
          EXPECT_TRUE(seen.insert(rank).second);
          EXPECT_EQ(tree.consumer_of(rank, axis), node.index);
        }
      }
      EXPECT_EQ(seen.size(), tree.mesh().world_size());
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
