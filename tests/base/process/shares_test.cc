#include <sched.h>
#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/process/control_groups.h"
#include "base/process/cpu_share.h"
#include "base/process/memory_share.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
constexpr GroupFile kMemory{"memory", "memory.max", "memory.limit_in_bytes"};

// A machine's files, as far as a test writes them.
class SharesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = absl::StrCat(::testing::TempDir(), "/", test->name());
    std::filesystem::remove_all(root_);
  }

  void Groups(const std::string& text) { Write("/proc/self/cgroup", text); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string Group(const std::string& path) { return root_ + "/sys/fs/cgroup" + path; }
  int Cpus(int allowed) { return LeastCpus(allowed, 64, root_).cpus; }
  std::string Because(int allowed) { return LeastCpus(allowed, 64, root_).because; }

  std::string root_;
};

TEST_F(SharesTest, GroupsAreTheProcesssAndThoseAroundIt) {
  Groups("0::/system.slice/gemmd.service\n");
  EXPECT_THAT(GroupPaths(kMemory, root_),
              ElementsAre(Group("/system.slice/gemmd.service/memory.max"),
                          Group("/system.slice/memory.max"), Group("/memory.max")));
  Groups("12:cpu,cpuacct:/a\n9:memory:/a/b\n1:name=systemd:/a\n0::/\n");
  EXPECT_THAT(GroupPaths(kMemory, root_),
              ElementsAre(Group("/memory/a/b/memory.limit_in_bytes"),
                          Group("/memory/a/memory.limit_in_bytes"),
                          Group("/memory/memory.limit_in_bytes"), Group("/memory.max")));
  EXPECT_THAT(GroupPaths({"cpu", "", "cpu.cfs_quota_us"}, root_),
              ElementsAre(Group("/cpu/a/cpu.cfs_quota_us"), Group("/cpu/cpu.cfs_quota_us")));
  Groups("nonsense\n\n");
  EXPECT_THAT(GroupPaths(kMemory, root_), IsEmpty());
}

TEST_F(SharesTest, CpusAreThoseOfTheAffinityWhereNothingElseIsSaid) {
  EXPECT_EQ(Cpus(64), 64);
  EXPECT_EQ(Because(64), "the machine's");
  EXPECT_EQ(Cpus(1), 1);
  EXPECT_EQ(Because(1), "the process's affinity");
}

TEST_F(SharesTest, AQuotaOfCpusIsRoundedUp) {
  Groups("0::/\n");
  const struct {
    const char* text;
    int cpus;
  } cases[] = {{"max 100000\n", 8},
               {"100000 100000\n", 1},
               {"50000 100000\n", 1},
               {"1000 100000\n", 1},
               {"150000 100000\n", 2},
               {"400000 50000\n", 8},
               {"9000000 100000\n", 8},
               {"0 100000\n", 8},
               {"100000 0\n", 8},
               {"100000\n", 8},
               {"", 8},
               {"nonsense", 8}};
  for (const auto& each : cases) {
    Write("/sys/fs/cgroup/cpu.max", each.text);
    EXPECT_EQ(Cpus(8), each.cpus) << each.text;
  }
}

TEST_F(SharesTest, EveryGroupAroundTheProcessBoundsItsCpus) {
  Groups("0::/a/b/c\n");
  Write("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/a/b/cpu.max", "200000 100000\n");
  Write("/sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  EXPECT_EQ(Cpus(16), 2);
  EXPECT_EQ(Because(16), Group("/a/b/cpu.max"));
  EXPECT_EQ(Because(1), "the process's affinity");
}

TEST_F(SharesTest, GroupsOfTheFirstVersionBoundCpusToo) {
  // A container's own group is where its files are mounted; the host's path is not there.
  Groups("3:cpu,cpuacct:/docker/0123\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Cpus(16), 3);
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Cpus(16), 16);
}

TEST_F(SharesTest, MemoryIsTheLeastOfItsBounds) {
  Groups("0::/a\n");
  EXPECT_EQ(LeastMemory(4096 * kMiB, kAny, root_).usable.bytes, 4096 * kMiB);
  EXPECT_EQ(LeastMemory(4096 * kMiB, kAny, root_).deadly.bytes, kAny);
  Write("/sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(LeastMemory(4096 * kMiB, kAny, root_).usable.because, "the machine's");
  Write("/sys/fs/cgroup/memory.max", "2147483648\n");
  EXPECT_EQ(LeastMemory(4096 * kMiB, kAny, root_).usable.bytes, 2048 * kMiB);
  EXPECT_EQ(LeastMemory(4096 * kMiB, kAny, root_).deadly.bytes, 2048 * kMiB);
  Write("/sys/fs/cgroup/a/memory.high", "1073741824\n");
  const MemoryShare share = LeastMemory(4096 * kMiB, kAny, root_);
  EXPECT_EQ(share.usable.bytes, 1024 * kMiB);
  EXPECT_EQ(share.usable.because, Group("/a/memory.high"));
  EXPECT_EQ(share.deadly.bytes, 2048 * kMiB) << "beyond memory.high it is slow, and lives";
  EXPECT_EQ(LeastMemory(4096 * kMiB, 1024 * kMiB, root_).usable.bytes, 512 * kMiB);
}

TEST_F(SharesTest, MemoryOfTheFirstVersionIsBoundedToo) {
  Groups("9:memory:/a\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(LeastMemory(4096 * kMiB, kAny, root_).usable.bytes, 4096 * kMiB);
  Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1048576\n");
  EXPECT_EQ(LeastMemory(4096 * kMiB, kAny, root_).usable.bytes, kMiB);
}

TEST(ThisProcess, HasCpusAndMemory) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_GE(UsableCpus(), 1);
  EXPECT_LE(UsableCpus(), CPU_COUNT(&set));
  EXPECT_GT(UsableMemoryBytes(), 0U);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_LE(UsableMemoryBytes(), limit.rlim_cur);
}

}  // namespace
}  // namespace gemmd
