// A real gemmd process for end-to-end tests.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"

namespace gemmd::testing {

class ServerProcess {
 public:
  // Starts gemmd on a free loopback port with further flags, and reads its log until it
  // serves or ends. The binary is a data dependency of the test.
  explicit ServerProcess(std::vector<std::string> flags = {});

  // Drains it if it still runs; the test fails where it does not end as it should.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // "127.0.0.1:43231"; empty if the process ended without serving.
  const std::string& address() const { return address_; }

  // The address of --observe.listen; empty if it has none.
  const std::string& observe_address() const { return observe_address_; }

  // A channel of its own connection, with unlimited messages.
  std::shared_ptr<grpc::Channel> NewChannel() const;

  void Signal(int signal);

  // Reads the log on to a line with that text, and returns it; empty if it ends before.
  std::string AwaitLine(const std::string& text);

  // Nobody reads the log from here on: log() ends with what was read before.
  void CloseLog();

  pid_t pid() const { return pid_; }

  // Waits for the process to end. Its exit code, or -1 if a signal ended it.
  int WaitForExit();

  // All it has logged; REQUIRES: it has ended or failed to serve.
  const std::string& log() const { return log_; }

 private:
  bool ReadLine(std::string* line);

  pid_t pid_ = -1;
  bool is_killed_ = false;  // by the test
  int log_fd_ = -1;
  std::string buffered_;
  std::string address_;
  std::string observe_address_;
  std::string log_;
};

}  // namespace gemmd::testing
