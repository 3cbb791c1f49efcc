#include "overlord/protocol/digest_writer.h"

#include <gtest/gtest.h>

namespace overlord::protocol {
namespace {

struct Section {
  uint32_t rows = 3;
  std::string name;
  std::optional<uint32_t> later;
  std::vector<std::string> latest;

  OVERLORD_FIELDS(rows, name, later, latest)
};

std::string bytes_of(const Section& section) {
  DigestWriter writer;
  writer(section.rows, section.name);
  writer.later_fields(section, 2);
  return writer.bytes();
}

TEST(DigestWriter, AFieldThatCameLaterIsThereWhereItIsUsed) {
  Section section{4, "s", {}, {}};
  const std::string before = bytes_of(section);
  EXPECT_EQ(before, std::string("\x04\0\0\0\x01s", 6)) << "as if there were no later field";
  section.later = 7;
  EXPECT_EQ(bytes_of(section), before + std::string("\x05later\x01\x07\0\0\0", 11));
  section.later.reset();
  section.latest = {"a"};
  EXPECT_EQ(bytes_of(section), before +
                                   "\x06latest\x01\x01"
                                   "a");
}

}  // namespace
}  // namespace overlord::protocol
