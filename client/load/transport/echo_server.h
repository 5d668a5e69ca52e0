// The ceiling: what gRPC alone carries, with none of this project's code behind it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "client/load/transport/self_signed.h"

namespace gemmd::load {

// Answers the method "/echo/BYTES" with that many bytes, the request's own as far as they
// go; and each message of a stream "/echo-stream/BYTES" likewise. "/echo/BYTES/US" first works so
// many microseconds, on one request at a time, as a device would (busy_worker.h). Raw byte buffers,
// nothing is parsed or copied.
class EchoServer {
 public:
  // Listens on a free loopback port: with TLS as this certificate says, in plain text without.
  explicit EchoServer(const std::optional<CertifiedKey>& tls = std::nullopt);
  ~EchoServer();
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;

  // "127.0.0.1:PORT"; empty where no port could be had.
  const std::string& address() const { return address_; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string address_;
};

}  // namespace gemmd::load
