#include "overlord/plan/partition/decode_place.h"

#include <gtest/gtest.h>

namespace overlord::plan {
namespace decode_place_test {

// Pictures as they become patches of floats: 20 times the bytes.
DecodeLoad pictures(uint64_t millicores, bool encoded = false) {
  return {"pairs", model::DecodeAt::kAuto, 10, 1'000'000, 20'000'000, millicores, encoded};
}

DecodeChoice choose(const DecodeLoad& load, const DecodeRoom& room) {
  return choose_decoding(std::vector<DecodeLoad>{load}, room).front();
}

TEST(DecodePlace, NothingIsPackedWhereNothingIsSent) {
  EXPECT_FALSE(choose(pictures(0), {false, 8, 0}).packs);
  EXPECT_TRUE(choose(pictures(0), {true, 8, 0}).packs);
}

TEST(DecodePlace, ItMustSaveHalfOfTheBytes) {
  DecodeLoad load = pictures(0);
  load.decoded_bytes = 2 * load.stored_bytes;
  EXPECT_TRUE(choose(load, {true, 8, 0}).packs);
  load.decoded_bytes -= 1;
  const DecodeChoice choice = choose(load, {true, 8, 0});
  EXPECT_FALSE(choice.packs);
  EXPECT_EQ(choice.why, "100 kB a row packed, 199 kB decoded, which saves less than half");
}

TEST(DecodePlace, ConstructorsDecodeAsLongAsTheirHostsHaveCores) {
  EXPECT_TRUE(choose(pictures(4000), {true, 4, 16}).packs);
  const DecodeChoice beyond = choose(pictures(4001), {true, 4, 16});
  EXPECT_FALSE(beyond.packs);
  EXPECT_NE(beyond.why.find("4 cores to spare, others 16 cores"), std::string::npos) << beyond.why;
  // There is nobody else: the work is the same, and fewer bytes are sent.
  EXPECT_TRUE(choose(pictures(4001), {true, 4, 0}).packs);
}

TEST(DecodePlace, WithOwnersTwoGroupsDecode) {
  EXPECT_TRUE(choose(pictures(2000, true), {true, 4, 16}).packs);
  EXPECT_FALSE(choose(pictures(2001, true), {true, 4, 16}).packs);
  EXPECT_FALSE(choose(pictures(2001, true), {true, 4, 0}).packs) << "loaders decode once";
}

TEST(DecodePlace, CoresGoToWhatSavesMostBytes) {
  std::vector<DecodeLoad> loads = {pictures(3000), pictures(3000)};
  loads[1].name = "large";
  loads[1].decoded_bytes *= 10;
  const auto choices = choose_decoding(loads, {true, 4, 16});
  EXPECT_FALSE(choices[0].packs);
  EXPECT_TRUE(choices[1].packs);
  EXPECT_EQ(choices[1].source, "large");
}

TEST(DecodePlace, TheKeyHasTheLastWord) {
  DecodeLoad load = pictures(9000);
  load.asked = model::DecodeAt::kConstructor;
  EXPECT_TRUE(choose(load, {false, 1, 16}).packs);
  load.asked = model::DecodeAt::kLoader;
  EXPECT_FALSE(choose(load, {true, 16, 0}).packs);
  load.asked = model::DecodeAt::kConstructor;
  load.rows = 0;
  EXPECT_FALSE(choose(load, {true, 16, 0}).packs);
}

}  // namespace decode_place_test
}  // namespace overlord::plan
