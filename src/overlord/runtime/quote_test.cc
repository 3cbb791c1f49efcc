#include "overlord/runtime/quote.h"

#include <gtest/gtest.h>

namespace overlord::runtime {
namespace {

TEST(Quote, TextStaysAsItIs) {
  EXPECT_EQ(quote("plain"), "'plain'");
  EXPECT_EQ(quote("na\xc3\xafve \xe6\x97\xa5 \xf0\x9f\x98\x80"),
            "'na\xc3\xafve \xe6\x97\xa5 \xf0\x9f\x98\x80'");
}

TEST(Quote, ControlBytesAndQuotesAreEscaped) {
  EXPECT_EQ(quote("a\nb'c\\d\x7f"), "'a\\x0ab\\x27c\\x5cd\\x7f'");
  EXPECT_EQ(quote("\xc2\x9b"
                  "31m"),
            "'\\xc2\\x9b31m'");
}

TEST(Quote, WhatIsNotUtf8IsEscapedByteByByte) {
  EXPECT_EQ(quote("\x89PNG"), "'\\x89PNG'");
  EXPECT_EQ(quote("\xc3("), "'\\xc3('");
  EXPECT_EQ(quote("\xed\xa0\x80"), "'\\xed\\xa0\\x80'") << "a surrogate";
  EXPECT_EQ(quote("\xc0\xaf\xf5\xe0\x80\x80"), "'\\xc0\\xaf\\xf5\\xe0\\x80\\x80'");
  EXPECT_EQ(quote("\xe6\x97"), "'\\xe6\\x97'") << "cut off";
}

TEST(Quote, CutsInTheMiddleEvenOfACharacter) {
  EXPECT_EQ(quote("\xe6\x97\xa5\xe6\x97\xa5", 4), "'\\xe6\\x97...\\x97\\xa5'");
}

}  // namespace
}  // namespace overlord::runtime
