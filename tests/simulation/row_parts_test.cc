// Parts of sources and rows that stay together, where metadata comes from an index and where it is
// made out of decoded blocks, while messages take their time.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "overlord/sim/scenario.h"

namespace overlord::sim {
namespace row_parts_test {

using Position = std::pair<SourceIndex, uint64_t>;

Scenario one_pass() {
  Scenario scenario = Scenario::small();
  for (model::Source& source : scenario.spec.sources) source.at_end = model::EndPolicy::kDrop;
  return scenario;
}

std::multiset<Position> positions_of(const Scenario& scenario, uint64_t seed) {
  auto cluster = scenario.start(seed);
  EXPECT_TRUE(cluster->run(1000));
  std::multiset<Position> out;
  for (const Rank rank : cluster->ranks()) {
    for (const auto& batch : cluster->delivered(rank).batches) {
      for (const model::LineageRow& row : batch->core->lineage) {
        if (row.first == 0) out.emplace(row.id.source, row.id.position);
      }
    }
  }
  return out;
}

TEST(RowParts, AreDisjointAndTogetherAllRows) {
  const Scenario whole = one_pass();
  const std::multiset<Position> all = positions_of(whole, 1);
  ASSERT_EQ(all.size(), 2 * 40 + 3 * 25 + 60u);
  std::multiset<Position> together;
  for (const model::RowPart part :
       {model::RowPart{0, 999'999'999}, model::RowPart{1'000'000'000, 2'999'999'999},
        model::RowPart{3'000'000'000, 0xffffffffu}}) {
    Scenario scenario = one_pass();
    for (model::Source& source : scenario.spec.sources) source.part = part;
    const std::multiset<Position> own = positions_of(scenario, 2 + part.least);
    EXPECT_GT(own.size(), all.size() / 8);
    together.insert(own.begin(), own.end());
  }
  EXPECT_EQ(together, all);
}

TEST(RowGroups, ComeTogetherAndSurviveAResume) {
  Scenario scenario = one_pass();
  scenario.spec.context = 1024;  // any two fit
  scenario.spec.bins = 2;
  for (model::Source& source : scenario.spec.sources) {
    source.groups.rows = 2;
    source.over_length = model::OverLength::kDrop;
  }
  auto whole = scenario.start(1);
  ASSERT_TRUE(whole->run(1000));
  std::multiset<Position> seen;
  size_t joined = 0;
  for (const Rank rank : whole->ranks()) {
    for (const auto& batch : whole->delivered(rank).batches) {
      const auto& lineage = batch->core->lineage;
      for (size_t i = 0; i < lineage.size(); ++i) {
        seen.emplace(lineage[i].id.source, lineage[i].id.position);
        if ((lineage[i].flags & model::Segment::kJoined) == 0) continue;
        ++joined;
        ASSERT_GT(i, 0u);
        EXPECT_EQ(lineage[i - 1].id.position + 1, lineage[i].id.position);
        EXPECT_EQ(lineage[i - 1].row, lineage[i].row);
      }
    }
  }
  // 80, 75 and 60 rows; each shard of 25 has an odd one.
  EXPECT_EQ(seen.size(), 80 + 75 + 60u);
  EXPECT_EQ(joined, 40 + 3 * 12 + 30u);
  auto before = scenario.start(2);
  ASSERT_TRUE(before->run(3));
  const auto state = before->consumer(0).state();
  auto after =
      scenario.resume(*protocol::decode_resume_state(protocol::encode_resume_state(state)), 3);
  ASSERT_TRUE(after->run(1000));
  EXPECT_EQ(after->consumer(0).plan_chain(), whole->consumer(0).plan_chain());
}

}  // namespace row_parts_test
}  // namespace overlord::sim
