#include "overlord/columnar/text_rules.h"

#include <gtest/gtest.h>

namespace overlord::columnar {
namespace {

TEST(TextRules, BlankIsAnyMixtureOfUnicodeSpaces) {
  EXPECT_TRUE(is_blank(""));
  EXPECT_TRUE(is_blank(" \t\r\n\v\f"));
  EXPECT_TRUE(is_blank("\u00a0\u2003\u3000 \u2028"));
  EXPECT_FALSE(is_blank(" a "));
  EXPECT_FALSE(is_blank("\u200b"));  // zero width space is a character of its own
  EXPECT_FALSE(is_blank(std::string_view("\0", 1)));
}

TEST(TextRules, Utf8) {
  EXPECT_TRUE(is_valid_utf8("h\u00e9llo \U0001f600"));
  EXPECT_FALSE(is_valid_utf8("\xff"));
  EXPECT_FALSE(is_valid_utf8("\xed\xa0\x80"));  // a surrogate
  EXPECT_FALSE(is_valid_utf8("cut \xc3"));
}

}  // namespace
}  // namespace overlord::columnar
