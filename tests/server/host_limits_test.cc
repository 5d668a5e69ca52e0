#include "server/host_limits.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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
