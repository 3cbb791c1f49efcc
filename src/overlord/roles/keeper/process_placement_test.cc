#include "overlord/roles/keeper/process_placement.h"

#include <gtest/gtest.h>

#include <map>

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
  options.isolated = {"b"};
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
  options.isolated = {"a"};
  const ProcessPlacement alone = place_processes(spec_of({"a"}), {0}, options);
  EXPECT_EQ(counts(alone), (Counts{{"constructors-0", {0, 1}}, {"loaders-0", {1, 0}}}));
}

}  // namespace
}  // namespace overlord::keeper
