// A server in a process of its own, for benchmarks that compare several.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace gemmd {

// REQUIRES: gRPC does not run in this process yet.
class ForkedServer {
 public:
  // `serve` runs in the new process: it starts a server, has `serving` tell its address, and
  // returns never. Waits for the address.
  using Serving = std::function<void(const std::string& address)>;
  explicit ForkedServer(const std::function<void(const Serving& serving)>& serve);
  ~ForkedServer();
  ForkedServer(const ForkedServer&) = delete;
  ForkedServer& operator=(const ForkedServer&) = delete;

  const std::string& address() const { return address_; }

 private:
  pid_t pid_;
  std::string address_;
};

}  // namespace gemmd
