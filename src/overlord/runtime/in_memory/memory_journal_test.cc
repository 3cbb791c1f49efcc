#include "overlord/runtime/in_memory/memory_journal.h"

#include <gtest/gtest.h>

namespace overlord::runtime {
namespace {

TEST(MemoryJournal, IsDurableAtOnceAndKeepsOrder) {
  MemoryJournal journal;
  int durable = 0;
  journal.append("a", [&](Status status) {
    EXPECT_TRUE(status.ok());
    ++durable;
    journal.append("b", [&](Status) { ++durable; });
  });
  EXPECT_EQ(durable, 2);
  EXPECT_EQ(journal.records(), (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace overlord::runtime
