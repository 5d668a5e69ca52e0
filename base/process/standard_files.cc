#include "base/process/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

namespace gemmd {
namespace {

// The way of opening it in which what the descriptor is for fails.
void OpenIfClosed(int descriptor, int unusable) {
  if (fcntl(descriptor, F_GETFD) >= 0) return;
  // Each takes the lowest number that is free. Where there is no /dev, the root is there to be
  // read.
  int opened = open("/dev/null", unusable);
  if (opened < 0) opened = open("/", O_RDONLY | O_DIRECTORY);
  if (opened != descriptor) _exit(1);
}

}  // namespace

void OpenStandardFiles() {
  OpenIfClosed(STDIN_FILENO, O_WRONLY);
  OpenIfClosed(STDOUT_FILENO, O_RDONLY);
  OpenIfClosed(STDERR_FILENO, O_RDONLY);
}

}  // namespace gemmd
