#include "server/process_memory.h"

#include <sys/resource.h>

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
  EXPECT_EQ(LeastOf(bounds), 512 * kMiB);
}

TEST(ProcessMemory, IsBoundedByGroupsAndThoseAroundThem) {
  EXPECT_THAT(GroupFiles("0::/system.slice/gemmd.service\n"),
              ElementsAre("/sys/fs/cgroup/system.slice/gemmd.service/memory.max",
                          "/sys/fs/cgroup/system.slice/memory.max", "/sys/fs/cgroup/memory.max"));
  EXPECT_THAT(
      GroupFiles("12:cpu,cpuacct:/a\n9:memory:/a/b\n1:name=systemd:/a\n0::/\n"),
      ElementsAre("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
                  "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                  "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max"));
  EXPECT_THAT(GroupFiles("nonsense\n\n"), IsEmpty());
}

TEST(ProcessMemory, OfThisProcessIsSomething) {
  EXPECT_GT(ProcessMemoryBytes(), 0u);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_LE(ProcessMemoryBytes(), limit.rlim_cur);
}

}  // namespace
}  // namespace gemmd
