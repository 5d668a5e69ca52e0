#include "base/process/standard_files.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

// In a process of its own that closed those of the mask: a bit for each thing that is wrong.
int Faults(unsigned closed) {
  for (int each = 0; each <= 2; ++each) {
    if ((closed & 1U << each) != 0) close(each);
  }
  OpenStandardFiles();
  int faults = 0;
  for (int each = 0; each <= 2; ++each) {
    if (fcntl(each, F_GETFD) < 0) faults |= 1;
  }
  char byte = 0;
  if ((closed & 1U) != 0 && read(0, &byte, 1) >= 0) faults |= 2;
  for (int each = 1; each <= 2; ++each) {
    if ((closed & 1U << each) != 0 && write(each, &byte, 1) >= 0) faults |= 4;
  }
  const int next = open("/dev/null", O_RDONLY);
  if (next <= 2) faults |= 8;
  return faults;
}

TEST(StandardFiles, AreOpenAndOfNoUse) {
  for (unsigned closed = 0; closed < 8; ++closed) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(Faults(closed));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "closed: " << closed;
  }
}

}  // namespace
}  // namespace gemmd
