#include "overlord/node/tree_rollout.h"

#include <gtest/gtest.h>

namespace overlord::node {
namespace {

planner::TreeChanged change_of(uint32_t version, StepIndex first) {
  planner::TreeChanged change;
  change.first_step = first;
  change.tree.mesh = *model::Mesh::make({{"dp", 2}});
  change.tree.version = version;
  auto views = std::make_shared<model::ViewTable>();
  views->by_rank.resize(2);
  change.tree.views = views;
  return change;
}

struct Host {
  std::vector<std::string> processes = {"loaders-0", "constructors-0"};
  std::vector<std::string> trainers = {"rank-0", "rank-1"};
  std::vector<std::string> told;
  int placed = 0, ready = 0;
  TreeRollout rollout{{
      [this](const std::string& peer, const protocol::Control& control) {
        told.push_back(peer + " " + std::to_string(std::get<protocol::TreeTold>(control).version));
      },
      [this] { return processes; },
      [this] { return trainers; },
      [this](const planner::TreeChanged&) { ++placed; },
  }};
  std::vector<std::string> news() { return std::exchange(told, {}); }
};

TEST(TreeRollout, ProcessesComeBeforeTrainersAndBothBeforeThePlanner) {
  Host host;
  host.rollout.begin(change_of(2, 7), [&] { ++host.ready; });
  EXPECT_EQ(host.placed, 1);
  EXPECT_EQ(host.news(), (std::vector<std::string>{"loaders-0 2", "constructors-0 2"}));
  host.rollout.taken("constructors-0", 2);
  EXPECT_TRUE(host.news().empty());
  EXPECT_EQ(host.rollout.waits(), "the mesh of step 7 waits for loaders-0");
  host.rollout.taken("loaders-0", 2);
  EXPECT_EQ(host.news(), (std::vector<std::string>{"rank-0 2", "rank-1 2"}));
  host.rollout.taken("rank-1", 2);
  EXPECT_EQ(host.ready, 0);
  EXPECT_EQ(host.rollout.waits(), "the mesh of step 7 waits for rank-0");
  host.rollout.taken("rank-0", 2);
  EXPECT_EQ(host.ready, 1);
  EXPECT_TRUE(host.rollout.waits().empty());
}

TEST(TreeRollout, WhoDiesIsToldAgainAndWhoLeavesIsNotWaitedFor) {
  Host host;
  host.rollout.begin(change_of(2, 7), [&] { ++host.ready; });
  host.rollout.taken("constructors-0", 2);
  host.rollout.ended("constructors-0");
  host.rollout.taken("loaders-0", 2);
  host.news();
  EXPECT_EQ(host.ready, 0);
  host.rollout.greet("constructors-0");
  EXPECT_EQ(host.news(), (std::vector<std::string>{"constructors-0 2"}));
  host.rollout.taken("constructors-0", 2);
  EXPECT_EQ(host.news().size(), 2u) << "now the trainers";
  host.rollout.taken("rank-1", 2);
  host.trainers = {"rank-1"};
  host.rollout.look();
  EXPECT_EQ(host.ready, 1);
  host.rollout.begin(change_of(3, 9), [&] { ++host.ready; });
  host.news();
  host.rollout.greet("loaders-0");
  EXPECT_EQ(host.news(), (std::vector<std::string>{"loaders-0 2", "loaders-0 3"}));
}

}  // namespace
}  // namespace overlord::node
