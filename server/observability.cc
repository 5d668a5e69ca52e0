#include "server/observability.h"

#include <optional>
#include <utility>

#include "base/text/address.h"
#include "server/observe_http/certificate_expiry.h"
#include "server/observe_http/console.h"

namespace gemmd {

Observability::Observability(const Options& options, Parts parts)
    : access_(parts.policy, parts.audit,
              {!options.http.tls.certificate_file.empty(), options.plaintext_tokens}),
      sources_(std::move(parts.metrics)),
      pages_({&access_, IsLoopback(SplitHostPort(options.http.listen).host),
              [this] { return sources_.router->draining(); },
              [this] { return CollectMetrics(sources_); },
              [this, clock = parts.clock, slow = parts.slow] {
                return ConsoleNumbers(clock->Now(), CollectMetrics(sources_), slow->recent());
              }}) {
  sources_.http = [this] { return server_->counts(); };
  sources_.certificate_expiry = [path = options.http.tls.certificate_file] {
    return path.empty() ? std::nullopt : CertificateExpiry(path);
  };
}

absl::StatusOr<std::unique_ptr<Observability>> Observability::Start(const Options& options,
                                                                    Parts parts) {
  const Clock* const clock = parts.clock;
  std::unique_ptr<Observability> made(new Observability(options, std::move(parts)));
  absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(
      options.http, clock,
      [pages = &made->pages_](const HttpRequest& request) { return pages->Answer(request); });
  if (!server.ok()) return server.status();
  made->server_ = *std::move(server);
  return made;
}

}  // namespace gemmd
