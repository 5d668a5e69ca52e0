// The bare echo server of --ceiling and --null, in a process of its own, so that it shares
// no thread with the client.
#pragma once

#include <sys/types.h>

#include <string>

#include "client/cli/failure.h"

namespace gemmd::cli {

// Runs this program again as `gemm bench echo-server`.
class EchoProcess {
 public:
  EchoProcess() = default;
  // Ends it.
  ~EchoProcess();
  EchoProcess(const EchoProcess&) = delete;
  EchoProcess& operator=(const EchoProcess&) = delete;

  Outcome Start();

  const std::string& address() const { return address_; }

 private:
  pid_t pid_ = -1;
  int input_ = -1;  // the process ends when this is closed, also where we end badly
  std::string address_;
};

// What that process does: prints its address, serves until standard input ends.
Outcome RunEchoServer();

}  // namespace gemmd::cli
