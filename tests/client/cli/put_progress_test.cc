#include "client/cli/views/put_progress.h"

#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace gemmd::cli {
namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;

TEST(PutProgress, WritesOverALineWhereAPercentIsMore) {
  std::ostringstream terminal;
  {
    PutProgress progress(&terminal, "W.npy", 200 * kMebibyte);
    progress.Add(kMebibyte);
    EXPECT_EQ(terminal.str(), "");
    progress.Add(99 * kMebibyte);
    EXPECT_EQ(terminal.str(), "\r\x1b[2KW.npy  50 %  100.0 MiB of 200.0 MiB");
    progress.Add(kMebibyte);
    progress.Add(500 * kMebibyte);  // sent again
  }
  EXPECT_EQ(terminal.str(),
            "\r\x1b[2KW.npy  50 %  100.0 MiB of 200.0 MiB"
            "\r\x1b[2KW.npy  100 %  200.0 MiB of 200.0 MiB\r\x1b[2K");
}

TEST(PutProgress, SaysNothingOfLittleAndWhereNobodyLooks) {
  std::ostringstream terminal;
  { PutProgress(&terminal, "W.npy", 63 * kMebibyte).Add(40 * kMebibyte); }
  EXPECT_EQ(terminal.str(), "");
  PutProgress(nullptr, "W.npy", 200 * kMebibyte).Add(100 * kMebibyte);
}

}  // namespace
}  // namespace gemmd::cli
