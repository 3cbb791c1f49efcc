#include "overlord/base/bytes.h"

#include <gtest/gtest.h>

#include <limits>

namespace overlord {
namespace {

TEST(Bytes, NumbersSurviveARoundTrip) {
  ByteWriter writer;
  const int64_t values[] = {0,
                            1,
                            -1,
                            63,
                            -64,
                            64,
                            std::numeric_limits<int64_t>::min(),
                            std::numeric_limits<int64_t>::max()};
  for (const int64_t value : values) writer.zigzag(value);
  writer.varint(std::numeric_limits<uint64_t>::max());
  writer.u32(0xdeadbeef);
  writer.text("text");
  writer.digest({1, 2});
  ByteReader reader(writer.bytes());
  for (const int64_t value : values) EXPECT_EQ(reader.zigzag(), value);
  EXPECT_EQ(reader.varint(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(reader.u32(), 0xdeadbeefu);
  EXPECT_EQ(reader.text(), "text");
  EXPECT_EQ(reader.digest(), (Digest{1, 2}));
  EXPECT_TRUE(reader.status("record").ok());
}

TEST(Bytes, ShortInputFailsOnceAndForAll) {
  ByteReader reader(std::string_view("\x05", 1));
  EXPECT_EQ(reader.u64(), 0u);
  EXPECT_TRUE(reader.failed());
  EXPECT_EQ(reader.u8(), 0u);
  EXPECT_FALSE(reader.status("record").ok());
}

TEST(Bytes, LeftoversAreAnError) {
  ByteReader reader(std::string_view("ab"));
  reader.u8();
  EXPECT_FALSE(reader.status("record").ok());
  EXPECT_TRUE(reader.status("record", false).ok());
}

TEST(Bytes, ALyingCountIsRefused) {
  ByteWriter writer;
  writer.varint(1'000'000);
  ByteReader reader(writer.bytes());
  EXPECT_EQ(reader.count(4), 0u);
  EXPECT_TRUE(reader.failed());
}

TEST(Bytes, ANumberHasOneEncoding) {
  for (const std::string_view bytes :
       {std::string_view("\x80\x00", 2), std::string_view("\xff\x80\x00", 3),
        std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10)}) {
    ByteReader reader(bytes);
    reader.varint();
    EXPECT_TRUE(reader.failed());
  }
}

TEST(Digest, HexSurvivesARoundTrip) {
  const Digest digest = digest_of("overlord");
  Digest parsed;
  ASSERT_TRUE(Digest::parse(digest.hex(), &parsed));
  EXPECT_EQ(parsed, digest);
  EXPECT_FALSE(Digest::parse("xyz", &parsed));
}

// Known answers: these bytes may never change, hashes are kept in checkpoints.
TEST(Digest, IsTheSameEverywhere) {
  EXPECT_EQ(digest_of("").hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(chain({1, 2}, {3, 4}), chain({3, 4}, {1, 2}));
}

TEST(Status, KeepsItsCodeUnderContext) {
  const Status status = bad_data("row 3").with_context("source web");
  EXPECT_EQ(status.code(), Code::kBadData);
  EXPECT_EQ(status.message(), "source web: row 3");
}

}  // namespace
}  // namespace overlord
