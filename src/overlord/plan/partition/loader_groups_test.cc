#include "overlord/plan/partition/loader_groups.h"

#include <gtest/gtest.h>

namespace overlord::plan {
namespace {

std::vector<model::Source> sources_of(const std::vector<uint64_t>& millicores) {
  std::vector<model::Source> out;
  for (const uint64_t one : millicores) {
    model::Source& source = out.emplace_back();
    source.name = std::string(1, static_cast<char>('a' + out.size() - 1));
    source.loaders = 4;
    source.measured = {.elapsed_ns = one > 0 ? 1000u : 0u, .work_ns = one};
  }
  return out;
}

using Sources = std::vector<SourceIndex>;

TEST(LoaderGroups, AHeavySourceTakesItsPartOfTheProcesses) {
  const auto groups = loader_groups(sources_of({100, 700, 200}), {.processes = 4});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].sources, (Sources{0, 2}));
  EXPECT_EQ(groups[0].processes, 1u);
  EXPECT_EQ(groups[1].sources, (Sources{1}));
  EXPECT_EQ(groups[1].processes, 3u);
  EXPECT_EQ(groups[1].reason,
            "source b: 3 processes of its own, since it costs 70% of what all do, by the profiles "
            "of the run before");
}

TEST(LoaderGroups, NobodyIsHeavyBesideEqualsOrBeforeAllAreMeasuredOrAlone) {
  EXPECT_EQ(loader_groups(sources_of({400, 300, 300}), {.processes = 4}).size(), 1u);
  EXPECT_EQ(loader_groups(sources_of({900, 0, 10}), {.processes = 4}).size(), 1u);
  EXPECT_EQ(loader_groups(sources_of({900}), {.processes = 4}).size(), 1u);
  EXPECT_EQ(loader_groups(sources_of({900, 10}), {.processes = 1}).size(), 1u)
      << "there is one process";
  EXPECT_EQ(loader_groups(sources_of({900, 10}), {.processes = 4, .by_rule = false}).size(), 1u);
}

TEST(LoaderGroups, UsersPythonLivesApartFromWhatIsNative) {
  auto sources = sources_of({0, 0, 0, 0});
  sources[1].transform.function = "m:f";
  sources[3].media.push_back({"image", {"jpg"}, model::MediaUse{}});
  sources[3].media[0].use->function.function = "m:g";
  const auto groups = loader_groups(sources, {.processes = 1});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].sources, (Sources{0, 2}));
  EXPECT_EQ(groups[1].sources, (Sources{1, 3}));
  EXPECT_EQ(groups[1].reason, "sources b, d: a process apart from the others, for a user's Python");
  for (model::Source& source : sources) source.transform.function = "m:f";
  EXPECT_EQ(loader_groups(sources, {}).size(), 1u) << "nobody is native";
}

TEST(LoaderGroups, WhatIsDeclaredIsDoneFirst) {
  auto sources = sources_of({900, 20, 20, 20});
  sources[1].transform.function = "m:f";
  const auto groups =
      loader_groups(sources, {.processes = 3, .isolated = {{"d", "b"}, {"a"}, {"nobody"}}});
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].sources, (Sources{2}));
  EXPECT_EQ(groups[0].processes, 3u);
  EXPECT_EQ(groups[1].sources, (Sources{0}));
  EXPECT_EQ(groups[1].processes, 1u) << "as declared";
  EXPECT_EQ(groups[2].sources, (Sources{1, 3}));
  EXPECT_EQ(groups[2].reason, "sources b, d: a process of its own, as declared");
}

}  // namespace
}  // namespace overlord::plan
