#include "tests/load/forked_server.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace gemmd {

ForkedServer::ForkedServer(const std::function<void(const Serving& serving)>& serve) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  pid_ = fork();
  if (pid_ == 0) {
    // A benchmark that ends early would leave the server, and whoever reads its output would wait.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve([&](const std::string& address) {
      const std::string line = address + "\n";
      if (write(ends[1], line.data(), line.size()) < 0) _exit(1);
    });
    while (true) pause();
  }
  close(ends[1]);
  for (char next = 0; read(ends[0], &next, 1) == 1 && next != '\n';) address_ += next;
  close(ends[0]);
  if (address_.empty()) std::abort();
}

ForkedServer::~ForkedServer() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

}  // namespace gemmd
