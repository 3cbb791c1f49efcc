#include "overlord/plan/partition/group_homes.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace overlord::plan {
namespace {

std::vector<HomelessGroup> equal_groups(uint32_t count) {
  std::vector<HomelessGroup> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back({"g" + std::to_string(i), 1000, {}});
  return out;
}

size_t on(const GroupHomes& homes, const std::string& host) {
  size_t count = 0;
  for (const auto& [group, home] : homes) count += home == host;
  return count;
}

size_t moved(const GroupHomes& before, const GroupHomes& after) {
  size_t count = 0;
  for (const auto& [group, home] : after) count += before.at(group) != home;
  return count;
}

TEST(GroupHomes, OneHostHasAll) {
  EXPECT_EQ(on(home_groups(equal_groups(5), {{"", 2}}, {}), ""), 5u);
}

TEST(GroupHomes, WorkIsDealtByCores) {
  const GroupHomes homes = home_groups(equal_groups(12), {{"", 2}, {"b", 4}, {"c", 6}}, {});
  EXPECT_EQ(on(homes, ""), 2u);
  EXPECT_EQ(on(homes, "b"), 4u);
  EXPECT_EQ(on(homes, "c"), 6u);
}

TEST(GroupHomes, AHostThatJoinsTakesItsShareAndNoOtherGroupMoves) {
  const std::vector<HomelessGroup> groups = equal_groups(12);
  const GroupHomes before = home_groups(groups, {{"", 4}, {"b", 4}}, {});
  const GroupHomes after = home_groups(groups, {{"", 4}, {"b", 4}, {"c", 4}}, before);
  EXPECT_EQ(on(after, "c"), 4u);
  EXPECT_EQ(moved(before, after), 4u);
}

TEST(GroupHomes, AHostThatLeavesHandsOverItsOwnAlone) {
  const std::vector<HomelessGroup> groups = equal_groups(12);
  const GroupHomes before = home_groups(groups, {{"", 4}, {"b", 4}, {"c", 4}}, {});
  const GroupHomes after = home_groups(groups, {{"", 4}, {"c", 4}}, before);
  EXPECT_EQ(moved(before, after), 4u);
  EXPECT_EQ(on(after, ""), 6u);
}

TEST(GroupHomes, NothingMovesWithoutNeed) {
  const std::vector<HomelessGroup> groups = equal_groups(7);
  const std::vector<HostRoom> hosts = {{"", 4}, {"b", 2}};
  const GroupHomes before = home_groups(groups, hosts, {});
  EXPECT_EQ(home_groups(groups, hosts, before), before);
}

TEST(GroupHomes, ThoseThatStandByForEachOtherLiveApart) {
  // Two that are alone on the first host would both fit there best.
  const std::vector<HomelessGroup> groups = {{"a", 1000, {"b"}}, {"b", 1000, {"a"}}};
  const GroupHomes homes = home_groups(groups, {{"", 100}, {"x", 1}}, {});
  EXPECT_NE(homes.at("a"), homes.at("b"));
  EXPECT_EQ(on(home_groups(groups, {{"", 1}}, {}), ""), 2u);  // where there is no other
}

TEST(GroupHomes, ThoseThatHadToLiveTogetherPartWhenAnyHostComes) {
  const std::vector<HomelessGroup> groups = {{"a", 1000, {"b"}}, {"b", 1000, {"a"}}};
  const GroupHomes before = home_groups(groups, {{"", 100}}, {});
  for (const HostRoom& late : {HostRoom{"x", 1}, HostRoom{"x", 1, false}}) {
    const std::vector<HostRoom> hosts = {{"", 100}, late};
    const GroupHomes after = home_groups(groups, hosts, before);
    EXPECT_NE(after.at("a"), after.at("b"));
    EXPECT_EQ(home_groups(groups, hosts, after), after);
  }
}

TEST(GroupHomes, TheBusiestIsAsCalmAsCanBe) {
  const std::vector<HomelessGroup> groups = {
      {"large", 6, {}}, {"a", 2, {}}, {"b", 2, {}}, {"c", 2, {}}};
  const GroupHomes homes = home_groups(groups, {{"", 1}, {"x", 1}}, {});
  for (const char* name : {"a", "b", "c"}) EXPECT_NE(homes.at(name), homes.at("large"));
}

// --- Hosts with ranks, and hosts without -------------------------------------------------------

const HostRoom kFar = {"cpu", 8, false};

TEST(GroupHomes, SpareCoresOfHostsWithRanksComeFirst) {
  const GroupHomes homes = home_groups(equal_groups(6), {{"", 3}, kFar, {"b", 3}}, {});
  EXPECT_EQ(on(homes, ""), 3u);
  EXPECT_EQ(on(homes, "b"), 3u);
  EXPECT_EQ(on(homes, "cpu"), 0u);
}

TEST(GroupHomes, HostsWithoutRanksTakeWhatGoesBeyond) {
  const GroupHomes homes =
      home_groups(equal_groups(9), {{"", 2}, {"b", 1}, kFar, {"cpu2", 4, false}}, {});
  EXPECT_EQ(on(homes, ""), 2u);
  EXPECT_EQ(on(homes, "b"), 1u);
  EXPECT_EQ(on(homes, "cpu"), 4u);
  EXPECT_EQ(on(homes, "cpu2"), 2u);
}

TEST(GroupHomes, WhereThereIsMoreWorkThanCoresAllAreUsedAlike) {
  const GroupHomes homes = home_groups(equal_groups(24), {{"", 4}, kFar}, {});
  EXPECT_EQ(on(homes, ""), 8u);
  EXPECT_EQ(on(homes, "cpu"), 16u);
}

TEST(GroupHomes, AHostWithRanksThatComesLateRelievesThoseWithout) {
  const std::vector<HomelessGroup> groups = equal_groups(8);
  const GroupHomes before = home_groups(groups, {{"", 2}, kFar}, {});
  EXPECT_EQ(on(before, "cpu"), 6u);
  const GroupHomes after = home_groups(groups, {{"", 2}, kFar, {"late", 6}}, before);
  EXPECT_EQ(on(after, "cpu"), 0u);
  EXPECT_EQ(moved(before, after), 6u) << "nobody else moves";
}

TEST(GroupHomes, AHostThatIsNotNeededStillTakesWhatMustLiveApart) {
  const std::vector<HomelessGroup> groups = {
      {"a", 1000, {"b"}}, {"b", 1000, {"a"}}, {"c", 1000, {}}};
  const std::vector<HostRoom> hosts = {{"", 100}, kFar};
  const GroupHomes homes = home_groups(groups, hosts, {});
  EXPECT_NE(homes.at("a"), homes.at("b"));
  EXPECT_EQ(on(homes, "cpu"), 1u);
  const std::string& there = homes.at("a") == "cpu" ? "a" : "b";
  EXPECT_NE(home_reasons(groups, hosts, homes).at(there).find("stands by"), std::string::npos);
}

TEST(GroupHomes, AHostThatBearsNoMoreLosesItsLargestAndGetsNoOther) {
  std::vector<HomelessGroup> groups = equal_groups(6);
  groups[2].millicores = 1500;
  std::vector<HostRoom> hosts = {{"", 1}, kFar};
  const GroupHomes before = home_groups(groups, hosts, {});
  ASSERT_EQ(before.at("g2"), "cpu");
  hosts[1].most = static_cast<uint32_t>(on(before, "cpu")) - 1;
  const GroupHomes after = home_groups(groups, hosts, before);
  EXPECT_EQ(after.at("g2"), "");
  EXPECT_EQ(moved(before, after), 1u);
  EXPECT_EQ(home_groups(groups, hosts, after), after);
  hosts[0].most = hosts[1].most = 1;  // somewhere they must live
  EXPECT_EQ(home_groups(groups, hosts, after).size(), 6u);
}

// Whatever hosts come and go, what is asked again is answered the same, and pairs are parted.
TEST(GroupHomes, AnyChangeComesToRestAtOnce) {
  uint32_t dice = 1;
  const auto below = [&dice](uint32_t limit) {
    dice = dice * 1664525 + 1013904223;
    return (dice >> 8) % limit;
  };
  for (int world = 0; world < 300; ++world) {
    std::vector<HomelessGroup> groups = equal_groups(1 + below(12));
    for (HomelessGroup& group : groups) group.millicores = 1 + below(4000);
    for (size_t i = 0; i + 1 < groups.size(); i += 3) {
      groups[i].apart = {groups[i + 1].name};
      groups[i + 1].apart = {groups[i].name};
    }
    GroupHomes homes;
    for (int change = 0; change < 6; ++change) {
      std::vector<HostRoom> hosts = {{"", 1 + below(8)}};
      for (const char* name : {"b", "c", "d"}) {
        if (below(2) == 0) {
          hosts.push_back({name, 1 + below(8), below(2) == 0});
          if (below(4) == 0) hosts.back().most = below(4);
        }
      }
      homes = home_groups(groups, hosts, homes);
      ASSERT_EQ(home_groups(groups, hosts, homes), homes) << world << " " << change;
      for (const HomelessGroup& group : groups) {
        const bool bear = std::all_of(hosts.begin(), hosts.end(),
                                      [](const HostRoom& host) { return host.most > 12; });
        if (group.apart.empty() || hosts.size() == 1 || !bear) continue;
        ASSERT_NE(homes.at(group.name), homes.at(group.apart[0])) << world << " " << change;
      }
    }
  }
}

TEST(GroupHomes, ReasonsNameWhatThereIsAndWhatIsAskedFor) {
  const std::vector<HomelessGroup> groups = equal_groups(6);
  std::vector<HostRoom> hosts = {{"", 4}, kFar};
  auto reasons = home_reasons(groups, hosts, home_groups(groups, hosts, {}));
  std::map<std::string, int> seen;
  for (const auto& [group, why] : reasons) ++seen[why];
  EXPECT_EQ(seen["spare cores of hosts with ranks come first: 4 cores, loaders can use 6 cores"],
            4);
  EXPECT_EQ(seen["hosts with ranks have 4 cores to spare, loaders can use 6 cores"], 2);
  hosts = {{"", 1}, {"cpu", 1, false}};
  reasons = home_reasons(groups, hosts, home_groups(groups, hosts, {}));
  EXPECT_EQ(reasons.at("g0"), "dealt by cores: loaders can use 6 cores, all hosts have 2 cores");
}

// --- What there is, and what is asked for -------------------------------------------------------

TEST(SpareCores, PlannerAndConstructorsAreTakenOff) {
  EXPECT_EQ(spare_cores(16, 8, true), 14u);
  EXPECT_EQ(spare_cores(16, 9, false), 14u);
  EXPECT_EQ(spare_cores(16, 0, false), 16u);
  EXPECT_EQ(spare_cores(2, 64, true), 1u);
}

TEST(SlotMillicores, AreWorkersUntilEverySourceIsMeasured) {
  std::vector<model::Source> sources(2);
  sources[0].loaders = 2;
  sources[0].workers = 3;
  sources[0].measured = {.elapsed_ns = 1000, .work_ns = 900};
  EXPECT_EQ(slot_millicores(sources), (std::vector<uint64_t>{3000, 1000}));
  sources[1].measured = {.elapsed_ns = 1000,
                         .work_ns = 90,
                         .send_ns = 10};  // seven workers, nine tenths of them for the first
  EXPECT_EQ(slot_millicores(sources), (std::vector<uint64_t>{3150, 700}));
}

HostRoom holding(HostRoom host, std::vector<std::string> sources) {
  host.holds = std::move(sources);
  return host;
}

HostRoom lacking(HostRoom host, std::vector<std::string> sources) {
  host.lacks = std::move(sources);
  return host;
}

std::vector<HomelessGroup> groups_of(const std::string& source, uint32_t count) {
  std::vector<HomelessGroup> out;
  for (uint32_t i = 0; i < count; ++i) {
    out.push_back({source + std::to_string(i), 1000, {}, {source}});
  }
  return out;
}

std::vector<HomelessGroup> with(std::vector<HomelessGroup> groups,
                                const std::vector<HomelessGroup>& others) {
  groups.insert(groups.end(), others.begin(), others.end());
  return groups;
}

TEST(GroupHomes, AHostThatLacksFilesHasNoneOfTheirLoaders) {
  const auto groups = with(groups_of("code", 3), groups_of("web", 3));
  const std::vector<HostRoom> hosts = {{"", 2}, lacking({"b", 8}, {"web"})};
  const GroupHomes homes = home_groups(groups, hosts, {});
  for (const std::string group : {"web0", "web1", "web2"}) EXPECT_EQ(homes.at(group), "");
  EXPECT_EQ(on(homes, "b"), 3u) << "the others are where there are cores";
  const auto why = home_reasons(groups, hosts, homes).at("web0");
  EXPECT_NE(why.find("; not on b, which lacks the files of web"), std::string::npos) << why;
  // One that lived there must go, though nothing else is better about it.
  const GroupHomes before = {{"code0", "b"}, {"code1", "b"}, {"code2", "b"},
                             {"web0", "b"},  {"web1", ""},   {"web2", ""}};
  EXPECT_EQ(home_groups(groups, hosts, before), homes);
  EXPECT_EQ(moved(before, homes), 1u);
}

TEST(GroupHomes, FilesThatNobodyHasAreLookedForAnywhere) {
  const auto groups = groups_of("web", 4);
  const GroupHomes homes =
      home_groups(groups, {lacking({"", 2}, {"web"}), lacking({"b", 2}, {"web"})}, {});
  EXPECT_EQ(on(homes, ""), 2u);
}

TEST(GroupHomes, FilesOnDisksOfAHostDrawTheirLoaders) {
  const auto groups = with(groups_of("code", 2), groups_of("web", 2));
  const std::vector<HostRoom> hosts = {{"", 8}, holding({"b", 2, false}, {"web"})};
  const GroupHomes homes = home_groups(groups, hosts, {});
  EXPECT_EQ(homes.at("web0"), "b") << "though hosts with ranks have cores to spare";
  EXPECT_EQ(homes.at("web1"), "b");
  EXPECT_EQ(homes.at("code0"), "");
  EXPECT_EQ(home_groups(groups, hosts, homes), homes);
  EXPECT_EQ(home_reasons(groups, hosts, homes).at("web0"), "its files lie on disks of this host");
  EXPECT_NE(home_reasons(groups, hosts, homes).at("code0").find("spare cores"), std::string::npos);
  // Everywhere alike: nothing is nearer.
  const GroupHomes alike =
      home_groups(groups, {holding({"", 8}, {"web"}), holding({"b", 2, false}, {"web"})}, {});
  EXPECT_EQ(on(alike, ""), 4u);
}

TEST(GroupHomes, NoMoreThanThereAreCoresNearTheFiles) {
  const auto groups = groups_of("web", 6);
  const std::vector<HostRoom> hosts = {{"", 8}, holding({"b", 2, false}, {"web"})};
  const GroupHomes homes = home_groups(groups, hosts, {});
  EXPECT_EQ(on(homes, "b"), 2u);
  EXPECT_EQ(home_groups(groups, hosts, homes), homes);
  // More work than cores: everybody has his part of it, near or not.
  std::vector<HomelessGroup> large = groups;
  for (HomelessGroup& group : large) group.millicores = 64'000;
  const GroupHomes parts = home_groups(large, {{"", 4}, holding({"b", 2, false}, {"web"})}, {});
  EXPECT_EQ(on(parts, "b"), 2u);
  EXPECT_EQ(on(parts, ""), 4u);
  const GroupHomes own = home_groups(with(groups_of("code", 3), groups_of("web", 3)),
                                     {holding({"", 1}, {"code"}), holding({"b", 1}, {"web"})}, {});
  for (const auto& [group, home] : own) EXPECT_EQ(home, group.starts_with("code") ? "" : "b");
}

TEST(GroupHomes, AHostNearTheFilesThatJoinsTakesThemAndNothingElseMoves) {
  const auto groups = with(groups_of("code", 3), groups_of("web", 2));
  const GroupHomes before = home_groups(groups, {{"", 8}, {"b", 8}}, {});
  const GroupHomes after =
      home_groups(groups, {{"", 8}, {"b", 8}, holding({"c", 8, false}, {"web"})}, before);
  EXPECT_EQ(on(after, "c"), 2u);
  EXPECT_LE(moved(before, after), 3u) << "two to their files, at most one to even out the rest";
  EXPECT_EQ(home_groups(groups, {{"", 8}, {"b", 8}}, after).size(), groups.size());
}

TEST(GroupHomes, ShadowsAreApartAlsoNearTheirFiles) {
  std::vector<HomelessGroup> groups = {{"active", 1000, {"shadow"}, {"web"}},
                                       {"shadow", 1, {"active"}, {"web"}}};
  const GroupHomes homes = home_groups(groups, {{"", 8}, holding({"b", 8}, {"web"})}, {});
  EXPECT_EQ(homes.at("active"), "b");
  EXPECT_EQ(homes.at("shadow"), "");
}

}  // namespace
}  // namespace overlord::plan
