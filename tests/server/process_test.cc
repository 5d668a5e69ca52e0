#include "server/process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

// In a process of its own, which ends with what it found.
TEST(Process, WithoutCoreDumpsNobodyMayReadItsMemory) {
  for (const bool forbids : {false, true}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      prctl(PR_SET_DUMPABLE, 1);
      if (forbids) ForbidCoreDumps();
      _exit(prctl(PR_GET_DUMPABLE));
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), forbids ? 0 : 1);
  }
}

}  // namespace
}  // namespace gemmd
