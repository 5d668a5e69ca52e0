#include "server/observe/log.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <regex>
#include <string>

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

// Standard error is a pipe here.
class LogPipe : public ::testing::Test {
 protected:
  LogPipe() {
    EXPECT_EQ(pipe(ends_), 0);
    EXPECT_EQ(dup2(ends_[1], STDERR_FILENO), STDERR_FILENO);
    close(ends_[1]);
  }
  ~LogPipe() override {
    dup2(usual_, STDERR_FILENO);
    close(usual_);
    CloseReader();
  }

  void CloseReader() {
    if (ends_[0] >= 0) close(ends_[0]);
    ends_[0] = -1;
  }
  // Reads the text in the pipe.
  std::string Read() const {
    std::string text(1 << 20, '\0');
    text.resize(std::max<ssize_t>(0, read(ends_[0], text.data(), text.size())));
    return text;
  }

 private:
  const int usual_ = dup(STDERR_FILENO);
  int ends_[2] = {-1, -1};
};

TEST_F(LogPipe, AReaderThatDoesNotReadLosesLinesAndIsToldHowMany) {
  constexpr int kLines = 10000;  // more than any pipe holds
  for (int i = 0; i < kLines; ++i) Log(Severity::kInfo, "odd");
  const std::string text = Read();
  EXPECT_EQ(text.back(), '\n');
  const auto written = std::count(text.begin(), text.end(), '\n');
  EXPECT_LT(written, kLines);
  Log(Severity::kInfo, "even");
  const std::string rest = Read();
  EXPECT_NE(rest.find("\"event\":\"log_lines_lost\",\"count\":" + std::to_string(kLines - written)),
            std::string::npos)
      << rest;
  EXPECT_NE(rest.find("\"event\":\"even\""), std::string::npos) << rest;
}

TEST_F(LogPipe, AReaderThatHasGoneIsNoError) {
  std::signal(SIGPIPE, SIG_IGN);
  CloseReader();
  Log(Severity::kInfo, "odd");
}

TEST(Log, HasTheSameFormWithoutMemory) {
  ::testing::internal::CaptureStderr();
  LogWithoutMemory("odd", "a text");
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(std::regex_match(
      line, std::regex(R"(\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z","severity":"ERROR",)"
                       R"("event":"odd","error":"a text"\}\n)")))
      << line;
}

}  // namespace
}  // namespace gemmd
