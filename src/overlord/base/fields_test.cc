#include "overlord/base/fields.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "overlord/base/counts.h"
#include "overlord/base/enum_names.h"

namespace overlord {
namespace {

template <template <typename> typename Cell>
struct InnerCounts {
  Cell<int64_t> waited_ns{0};

  OVERLORD_FIELDS(waited_ns)
};

template <template <typename> typename Cell>
struct Counts {
  Cell<uint64_t> rows{0}, bytes{0};
  InnerCounts<Cell> inner;

  OVERLORD_FIELDS(rows, bytes, inner)
};

struct Probe : Counts<std::atomic> {
  std::atomic<bool> busy{false};
};

TEST(Fields, AreWalkedWithTheirNamesInTheListsOrder) {
  struct {
    std::vector<std::string> names;
    uint64_t sum = 0;
  } seen;
  Counts<Plain> counts{1, 2, {3}};
  for_each_field(counts, [&](std::string_view name, auto& field) {
    seen.names.emplace_back(name);
    if constexpr (std::is_same_v<decltype(field), uint64_t&>) seen.sum += field++;
  });
  EXPECT_EQ(seen.names, (std::vector<std::string>{"rows", "bytes", "inner"}));
  EXPECT_EQ(seen.sum, 3u);
  EXPECT_EQ(counts.bytes, 3u);
}

TEST(Counts, OfAProbeAreReadAndAddedWhole) {
  Probe probe;
  probe.rows += 5;
  probe.inner.waited_ns = 7;
  Counts<Plain> sum = read_counts(probe);
  add_counts(read_counts(probe), &sum);
  EXPECT_EQ(sum.rows, 10u);
  EXPECT_EQ(sum.bytes, 0u);
  EXPECT_EQ(sum.inner.waited_ns, 14);
}

enum class Method : uint8_t { kKeep, kBestFit, kUint16 };

TEST(EnumNames, AreThoseOfTheEnumerators) {
  static_assert(kEnumerators<Method> == 3);
  EXPECT_TRUE(is_known(Method::kUint16));
  EXPECT_FALSE(is_known(static_cast<Method>(3)));
  EXPECT_EQ(enum_name(Method::kBestFit), "best_fit");
  EXPECT_EQ(enum_name(Method::kUint16), "uint16");
  EXPECT_EQ(*enum_of<Method>("best_fit", "method"), Method::kBestFit);
  EXPECT_EQ(enum_of<Method>("worst", "method").status().message(),
            "method: one of keep, best_fit, uint16; got 'worst'");
}

enum class Late : uint8_t { kSecond = 2, kThird = 3 };

TEST(EnumNames, MayBeginLate) {
  static_assert(kEnumerators<Late> == 2);
  EXPECT_FALSE(is_known(static_cast<Late>(1)));
  EXPECT_TRUE(is_known(Late::kThird));
  EXPECT_FALSE(is_known(static_cast<Late>(4)));
  EXPECT_EQ(enum_name(Late::kSecond), "second");
  EXPECT_EQ(*enum_of<Late>("third", "order"), Late::kThird);
}

}  // namespace
}  // namespace overlord
