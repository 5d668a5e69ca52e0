#include "server/host_limits.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(MemoryOption, BeyondWhatTheProcessMayHaveIsRefused) {
  MemoryShare share;
  share.deadly = {1000, "/sys/fs/cgroup/memory.max"};
  EXPECT_TRUE(CheckMemoryOption("--cpu.memory-bytes", 0, share).ok());
  EXPECT_TRUE(CheckMemoryOption("--cpu.memory-bytes", 1000, share).ok());
  EXPECT_EQ(CheckMemoryOption("--cpu.memory-bytes", 1001, share).message(),
            "--cpu.memory-bytes is 1001; the process may have 1000 bytes, and ends if it takes "
            "more (/sys/fs/cgroup/memory.max)");
}

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::string DriverText(const std::string& version) {
  return "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " + version +
         "  Release Build  (root@host)  \nGCC version:  gcc version 15.3.0 (GCC) \n";
}

TEST(HostLacks, AnOldDriverIsOneLine) {
  const HostNeeds needs{true, 0};
  const std::vector<std::string> lacks = LacksOf({DriverText("575.57.08"), 0}, needs);
  ASSERT_EQ(lacks.size(), 1U);
  EXPECT_EQ(lacks[0],
            "NVIDIA's driver is 575.57.08, and CUDA 13 needs 580 or later: update the host's "
            "driver, or add CUDA's forward compatibility package");
  EXPECT_EQ(LacksOf({DriverText("99.1"), 0}, needs).size(), 1U);
  for (const char* const version : {"580.65.06", "580.159.04", "1000.1", "soon"}) {
    EXPECT_TRUE(LacksOf({DriverText(version), 0}, needs).empty()) << version;
  }
  EXPECT_TRUE(LacksOf({"", 0}, needs).empty()) << "a machine without a GPU lacks no driver";
  EXPECT_TRUE(LacksOf({DriverText("575.57.08"), 0}, {false, 0}).empty());
}

TEST(HostLacks, LittleSharedMemoryIsOneLineWhereClientsShareIt) {
  const std::vector<std::string> lacks = LacksOf({"", 64 * kMiB}, {false, 16384 * kMiB});
  ASSERT_EQ(lacks.size(), 1U);
  EXPECT_EQ(lacks[0],
            "/dev/shm has 67108864 bytes, and clients may share 17179869184 "
            "(--shared-memory.max-bytes): make it larger by --shm-size, or an emptyDir of medium "
            "Memory");
  EXPECT_TRUE(LacksOf({"", 1024 * kMiB}, {false, 16384 * kMiB}).empty());
  EXPECT_EQ(LacksOf({"", 1024 * kMiB - 1}, {false, 16384 * kMiB}).size(), 1U);
  EXPECT_TRUE(LacksOf({"", 64 * kMiB}, {false, 64 * kMiB}).empty());
  EXPECT_TRUE(LacksOf({"", 0}, {false, 0}).empty());
  EXPECT_EQ(LacksOf({DriverText("570.1"), 0}, {true, kMiB}).size(), 2U);
}

// In a process of its own, whose limits these are.
TEST(Descriptors, AreToBeEnough) {
  for (const rlim_t limit : {3, 8, 40, 300}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const rlimit few{limit, limit};
      setrlimit(RLIMIT_NOFILE, &few);
      _exit(CheckDescriptors().ok() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), limit == 300 ? 1 : 0) << limit;
  }
}

}  // namespace
}  // namespace gemmd
