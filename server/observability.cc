#include "server/observability.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/text/address.h"
#include "server/observe_http/certificate_expiry.h"

namespace gemmd {
namespace {

HistorySample ReadSample(const MetricSources& sources) {
  constexpr double kSecondsPerUs = 1e-6;
  HistorySample sample = SampleOf(sources.statistics->Read());
  for (const ServedDevice& each : sources.router->devices()) {
    const double backlog = each.scheduler->statistics().backlog_us * kSecondsPerUs;
    sample.backlog_seconds = std::max(sample.backlog_seconds, backlog);
  }
  return sample;
}

}  // namespace

Observability::Observability(const Options& options, Parts parts)
    : access_(parts.policy, parts.audit,
              {!options.http.tls.certificate_file.empty(), options.plaintext_tokens}),
      sources_(std::move(parts.metrics)),
      history_([this] { return ReadSample(sources_); }, parts.clock,
               std::chrono::nanoseconds(History::kPeriod)),
      pages_({&access_, IsLoopback(SplitHostPort(options.http.listen).host),
              [this] { return sources_.router->draining(); },
              [this] { return CollectMetrics(sources_); },
              [this, clock = parts.clock, slow = parts.slow, server = parts.server] {
                return ConsoleNumbers({clock->Now(), server, CollectMetrics(sources_),
                                       slow->recent(), history_.curves()});
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
