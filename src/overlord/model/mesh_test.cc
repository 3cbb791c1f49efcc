#include "overlord/model/mesh.h"

#include <gtest/gtest.h>

namespace overlord::model {
namespace {

TEST(Mesh, DefaultOrderIsTheOneEveryTrainerUses) {
  const auto mesh = Mesh::make({{"pp", 2}, {"dp", 3}, {"cp", 2}, {"tp", 4}});
  ASSERT_TRUE(mesh.ok());
  EXPECT_EQ(mesh->world_size(), 48u);
  for (Rank rank = 0; rank < 48; ++rank) {
    const uint32_t pp = mesh->coordinate(rank, "pp");
    const uint32_t dp = mesh->coordinate(rank, "dp");
    const uint32_t cp = mesh->coordinate(rank, "cp");
    const uint32_t tp = mesh->coordinate(rank, "tp");
    EXPECT_EQ(((pp * 3 + dp) * 2 + cp) * 4 + tp, rank);
  }
}

TEST(Mesh, AbsentAxesHaveSizeOne) {
  const auto mesh = Mesh::make({{"dp", 3}});
  EXPECT_EQ(mesh->size("cp"), 1u);
  EXPECT_EQ(mesh->coordinate(2, "cp"), 0u);
}

TEST(Mesh, RefusesWhatMakesNoSense) {
  EXPECT_FALSE(Mesh::make({{"dp", 0}}).ok());
  EXPECT_FALSE(Mesh::make({{"dp", 2}, {"dp", 2}}).ok());
  EXPECT_FALSE(Mesh::make({{"", 2}}).ok());
  EXPECT_FALSE(Mesh::make({{"dp", 1u << 20}, {"tp", 1u << 20}}).ok());
}

}  // namespace
}  // namespace overlord::model
