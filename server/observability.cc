#include "server/observability.h"

#include <chrono>
#include <optional>
#include <utility>

#include "server/observe/log.h"
#include "server/observe_http/certificate_expiry.h"
#include "server/observe_http/console.h"

namespace gemmd {
namespace {

std::unique_ptr<GpuSensors> SensorsOf(const std::vector<GpuAddress>& gpus) {
  if (gpus.empty()) return nullptr;
  const absl::StatusOr<NvmlFunctions> nvml = OpenNvml();
  if (!nvml.ok()) {
    Log(Severity::kWarning, "no_gpu_sensors", {{"why", nvml.status().message()}});
    return nullptr;
  }
  constexpr std::chrono::seconds kPeriod(1);
  return std::make_unique<GpuSensors>(*nvml, gpus, kPeriod);
}

}  // namespace

Observability::Observability(const Options& options, Parts parts)
    : gpus_(SensorsOf(parts.gpus)),
      access_(parts.policy, parts.audit,
              {!options.http.tls.certificate_file.empty(), options.plaintext_tokens}),
      sources_(std::move(parts.metrics)),
      pages_({&access_, [this] { return sources_.router->draining(); },
              [this] { return CollectMetrics(sources_); },
              [this, clock = parts.clock, slow = parts.slow] {
                return ConsoleNumbers(clock->Now(), CollectMetrics(sources_), slow->recent());
              }}) {
  sources_.gpus = gpus_.get();
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
