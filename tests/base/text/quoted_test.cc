#include "base/text/quoted.h"

#include <string>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(Quoted, RepeatsWhatIsShortAndPrintable) {
  EXPECT_EQ(Quoted(""), "\"\"");
  EXPECT_EQ(Quoted("sm90/imagined"), "\"sm90/imagined\"");
  EXPECT_EQ(Quoted(std::string(128, 'a')), "\"" + std::string(128, 'a') + "\"");
}

TEST(Quoted, EscapesWhatIsNotPrintable) {
  EXPECT_EQ(Quoted("a\"b\\c\n"), R"("a\"b\\c\n")");
  EXPECT_EQ(Quoted(absl::string_view("\0\x7f\xff", 3)), R"("\x00\x7f\xff")");
  EXPECT_EQ(Quoted("caf\xc3\xa9"), R"("caf\xc3\xa9")");
}

TEST(Quoted, CutsWhatIsLongAndTellsItsLength) {
  EXPECT_EQ(Quoted(std::string(200000, 'a')),
            "\"" + std::string(128, 'a') + "...\" (200000 bytes)");
  EXPECT_LT(Quoted(std::string(1 << 20, '\xff')).size(), 600U);
}

}  // namespace
}  // namespace gemmd
