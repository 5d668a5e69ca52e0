#include "server/observe/log.h"

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(Log, IsOneJsonObjectALine) {
  EXPECT_EQ(FormatLogLine(1700000000123456, Severity::kWarning, "odd",
                          {{"text", "a \"quote\"\nand a line"}, {"count", 3}, {"share", 0.5}}),
            R"({"time":"2023-11-14T22:13:20.123456Z","severity":"WARNING","event":"odd",)"
            R"("text":"a \"quote\"\nand a line","count":3,"share":0.5})");
}

TEST(Log, ReplacesBytesThatAreNotText) {
  const std::string line = FormatLogLine(0, Severity::kInfo, "odd", {{"text", "\xff\xfe"}});
  EXPECT_NE(line.find("\xef\xbf\xbd"), std::string::npos) << line;
}

}  // namespace
}  // namespace gemmd
