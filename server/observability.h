// The HTTP listener with all that its pages are made of.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/time/clock.h"
#include "server/auth/audit.h"
#include "server/auth/policy_file.h"
#include "server/net/connection_table.h"
#include "server/observe/slow_log.h"
#include "server/observe_http/console.h"
#include "server/observe_http/history.h"
#include "server/observe_http/http_server.h"
#include "server/observe_http/page_access.h"
#include "server/observe_http/pages.h"
#include "server/observe_http/server_metrics.h"
#include "server/options/config.pb.h"

namespace gemmd {

class Observability {
 public:
  // The parts of the process that the pages need; all outlive the listener.
  struct Parts {
    const Clock* clock = nullptr;
    const PolicyFile* policy = nullptr;
    AuditLog* audit = nullptr;
    const SlowLog* slow = nullptr;
    ConsoleServer server;
    // But for `http` and `certificate_expiry`.
    MetricSources metrics;
  };
  struct Options {
    HttpServerOptions http;
    bool plaintext_tokens = false;
  };

  // INVALID_ARGUMENT, UNAVAILABLE: as HttpServer::Start().
  static absl::StatusOr<std::unique_ptr<Observability>> Start(const Options& options, Parts parts);
  Observability(const Observability&) = delete;
  Observability& operator=(const Observability&) = delete;

  // As HttpServer's.
  void SetLimits(const HttpServerOptions& options) {
    server_->SetLimits(options.connections, options.reading);
  }

  int port() const { return server_->port(); }

 private:
  Observability(const Options& options, Parts parts);

  const PageAccess access_;
  MetricSources sources_;
  const History history_;
  const Pages pages_;
  std::unique_ptr<HttpServer> server_;  // last: it uses all else
};

}  // namespace gemmd
