// Serves HTTP/1.1 on a listener of its own, by Boost.Beast.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/time/clock.h"
#include "server/net/connection_table.h"
#include "server/observe_http/http.h"
#include "server/rpc/tls_files.h"

namespace gemmd {

struct HttpServerOptions {
  std::string listen;  // "HOST:PORT" or "unix:PATH"; port 0 takes a free one
  ConnectionTable::Limits connections;
  ProgressLimit reading;  // how fast clients must read
  // The time that a client has for its handshake, for each request whole, the wait for it included,
  // and for reading each answer.
  std::int64_t timeout_ms = 10000;
  TlsFiles tls;  // no certificate: plaintext
};

// One thread reads, asks for answers and writes, so that a client costs a connection and nothing
// else; another accepts. A request may have no body, and 8 KiB of headers.
class HttpServer {
 public:
  static constexpr std::size_t kHeaderBytes = 8192;

  // Called on the server's thread, for one request after another.
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  struct Counts {
    std::uint64_t requests = 0;  // that reached the handler
    std::uint64_t rejected = 0;  // by the parser: no HTTP, too large, with a body
    std::uint64_t timeouts = 0;  // of clients that sent, or read, too slowly
  };

  // INVALID_ARGUMENT: something is wrong with TLS's files. UNAVAILABLE: cannot listen there.
  // The clock and what the handler uses outlive the server.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                           const Clock* clock, Handler handler);
  // After it the handler is not called any more; connections are closed.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // As ConnectionTable's.
  void SetLimits(const ConnectionTable::Limits& connections, const ProgressLimit& reading);

  // 0 for unix sockets.
  int port() const;
  Counts counts() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace gemmd
