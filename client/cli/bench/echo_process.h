// The bare echo server of --ceiling and --null, in a process of its own, so that it shares
// no thread with the client.
#pragma once

#include <sys/types.h>

#include <string>

#include "client/channel.h"
#include "client/cli/failure.h"

namespace gemmd::cli {

// Runs this program again as `gemm bench echo-server`, in an empty environment.
class EchoProcess {
 public:
  EchoProcess() = default;
  // Ends it.
  ~EchoProcess();
  EchoProcess(const EchoProcess&) = delete;
  EchoProcess& operator=(const EchoProcess&) = delete;

  // With a certificate of its own making where it is to speak TLS.
  Outcome Start(bool tls);

  // To it alone. REQUIRES: it was started.
  client::ChannelOptions Channel() const;

 private:
  pid_t pid_ = -1;
  int input_ = -1;  // the process ends when this is closed, also where we end badly
  std::string address_;
  std::string certificate_;  // PEM; empty: plain text
};

// Runs that process: prints its address, with TLS its certificate after it, and serves until
// standard input ends.
Outcome RunEchoServer(bool tls);

}  // namespace gemmd::cli
