#include "tests/client/testing/subprocess.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/client/testing/temporary_directory.h"

namespace gemmd::testing {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(&string[0]);
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

ProcessResult RunProcess(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment) {
  ProcessResult result;
  // Files and not pipes: nobody has to read while the process runs.
  const TemporaryDirectory directory;
  const std::string output = directory.File("output", "");
  const std::string error = directory.File("error", "");
  std::vector<std::string> argument_copies = arguments;
  std::vector<std::string> environment_copies = environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment_copies.emplace_back(*variable);
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, error.c_str(), O_WRONLY, 0);
  pid_t pid = 0;
  // Not fork(): gRPC's threads run in this process.
  const int spawned =
      ::posix_spawnp(&pid, argument_copies[0].c_str(), &actions, nullptr,
                     Pointers(argument_copies).data(), Pointers(environment_copies).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (spawned != 0) {
    result.error = "cannot start " + arguments[0];
    return result;
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.output = FileBytes(output);
  result.error = FileBytes(error);
  return result;
}

}  // namespace gemmd::testing
