#include "overlord/roles/keeper/process_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace overlord::keeper {
namespace {

using protocol::RoleKind;

model::JobSpec spec_of(const std::vector<std::string>& sources) {
  model::JobSpec spec;
  for (const std::string& name : sources) spec.sources.emplace_back().name = name;
  return spec;
}

// Loaders and constructors of each process.
std::map<std::string, std::pair<int, int>> counts(const ProcessPlacement& placement) {
  std::map<std::string, std::pair<int, int>> out;
  for (const protocol::ProcessRoles& process : placement.processes) {
    for (const protocol::Address& role : process.roles) {
      ++(role.kind == RoleKind::kLoader ? out[process.name].first : out[process.name].second);
    }
  }
  return out;
}

using Counts = std::map<std::string, std::pair<int, int>>;

TEST(ProcessPlacement, ConstructorsLiveApartFromLoaders) {
  const ProcessPlacement placed = place_processes(spec_of({"a", "b", "c"}), {0, 1, 4}, {});
  EXPECT_EQ(counts(placed), (Counts{{"constructors-0", {0, 3}}, {"loaders-0", {3, 0}}}));
}

TEST(ProcessPlacement, ConstructorsLiveWithTheLoadersOfLightSources) {
  PlacementOptions options;
  options.loader_processes = 2;
  options.constructor_processes = 0;
  options.isolated = {{"b"}};
  const ProcessPlacement placed = place_processes(spec_of({"a", "b", "c"}), {0, 1, 4}, options);
  EXPECT_EQ(counts(placed),
            (Counts{{"loaders-0", {1, 2}}, {"loaders-1", {1, 1}}, {"loaders-2", {1, 0}}}));
  for (const protocol::ProcessRoles& process : placed.processes) {
    EXPECT_EQ(process.roles.front().kind, RoleKind::kLoader) << "others call it for its loaders";
  }
}

TEST(ProcessPlacement, NoProcessIsMadeForConstructorsOfMoreLoaderProcessesThanSources) {
  PlacementOptions options;
  options.loader_processes = 4;
  options.constructor_processes = 0;
  const ProcessPlacement placed = place_processes(spec_of({"a"}), {0, 1}, options);
  EXPECT_EQ(counts(placed), (Counts{{"loaders-0", {1, 2}}}));
}

TEST(ProcessPlacement, WhereNoLightSourceIsReadConstructorsHaveAProcess) {
  PlacementOptions options;
  options.constructor_processes = 0;
  options.loaders = false;
  const ProcessPlacement elsewhere = place_processes(spec_of({"a"}), {0}, options);
  EXPECT_EQ(counts(elsewhere), (Counts{{"constructors-0", {0, 1}}}));
  options.loaders = true;
  options.isolated = {{"a"}};
  const ProcessPlacement alone = place_processes(spec_of({"a"}), {0}, options);
  EXPECT_EQ(counts(alone), (Counts{{"constructors-0", {0, 1}}, {"loaders-0", {1, 0}}}));
}

std::set<std::string> homes_of(const ProcessPlacement& placed, const protocol::Address& role,
                               bool active) {
  std::set<std::string> out;
  for (const protocol::ProcessRoles& process : placed.processes) {
    const auto& roles = active ? process.roles : process.standby;
    if (std::find(roles.begin(), roles.end(), role) != roles.end()) out.insert(process.name);
  }
  return out;
}

TEST(ProcessPlacement, ASlotAndItsShadowsShareNoProcess) {
  for (uint32_t shadows = 0; shadows <= model::kMostShadows; ++shadows) {
    for (uint32_t processes = 1; processes <= 5; ++processes) {
      model::JobSpec spec = spec_of({"a", "b", "c", "d"});
      for (model::Source& source : spec.sources) source.loaders = 2;
      spec.sources[0].shadows = shadows;
      spec.sources[3].shadows = shadows;
      PlacementOptions options;
      options.loader_processes = processes;
      options.constructor_processes = shadows % 2;
      options.isolated = {{"d"}};
      const ProcessPlacement placed = place_processes(spec, {0, 1}, options);
      for (const uint32_t source : {0u, 3u}) {
        const protocol::Address slot = protocol::loader_address(source, 1);
        const std::set<std::string> own = homes_of(placed, slot, true);
        ASSERT_EQ(own.size(), 1u);
        EXPECT_EQ(homes_of(placed, slot, false).size(), shadows);
        EXPECT_FALSE(homes_of(placed, slot, false).contains(*own.begin()));
      }
      EXPECT_TRUE(homes_of(placed, protocol::loader_address(1, 0), false).empty());
    }
  }
}

TEST(ProcessPlacement, ShadowsOfAnIsolatedSourceLiveApartToo) {
  model::JobSpec spec = spec_of({"a", "b"});
  spec.sources[1].shadows = 1;
  PlacementOptions options;
  options.isolated = {{"b"}};
  const ProcessPlacement placed = place_processes(spec, {0}, options);
  ASSERT_EQ(placed.processes.size(), 4u);
  EXPECT_EQ(placed.processes[2].name, "loaders-2");
  EXPECT_TRUE(placed.processes[2].roles.empty());
  EXPECT_EQ(placed.processes[2].standby,
            std::vector<protocol::Address>{protocol::loader_address(1, 0)});
}

TEST(ProcessPlacement, ConstructorsOfALaterTreeBringNoShadows) {
  model::JobSpec spec = spec_of({"a"});
  spec.sources[0].shadows = 1;
  PlacementOptions options;
  options.constructor_processes = 0;
  model::ViewTable views;
  views.tree_version = 2;
  views.by_rank.resize(2);
  for (const protocol::ProcessRoles& process : place_tree(spec, views, options)) {
    EXPECT_TRUE(process.standby.empty());
  }
}

}  // namespace
}  // namespace overlord::keeper
