#include "server/process_memory.h"

#include <sys/resource.h>

#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::string FileOf(const std::string& name, const std::string& text) {
  std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(ProcessMemory, IsTheLeastOfItsBounds) {
  MemoryBounds bounds{4096 * kMiB, {}, RLIM_INFINITY};
  EXPECT_EQ(LeastOf(bounds), 4096 * kMiB);
  bounds.group_files = {"/no/such/file", FileOf("max", "max\n"),
                        FileOf("huge", "9223372036854771712\n")};
  EXPECT_EQ(LeastOf(bounds), 4096 * kMiB);
  bounds.group_files.push_back(FileOf("group", "2147483648\n"));
  EXPECT_EQ(LeastOf(bounds), 2048 * kMiB);
  bounds.address_space_bytes = 1024 * kMiB;
  EXPECT_EQ(LeastOf(bounds), 1024 * kMiB);
}

TEST(ProcessMemory, OfThisProcessIsSomething) {
  EXPECT_GT(ProcessMemoryBytes(), 0u);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_LE(ProcessMemoryBytes(), limit.rlim_cur);
}

}  // namespace
}  // namespace gemmd
