#include "server/tracing.h"

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "base/version.h"
#include "server/trace/http_span_sender.h"
#include "server/trace/otlp_endpoint.h"
#include "server/trace/otlp_json.h"

namespace gemmd {

absl::StatusOr<std::unique_ptr<Tracer>> MakeTracer(const config::Observe& config,
                                                   const Clock* clock) {
  Tracer::Options options;
  options.ring_bytes = static_cast<std::size_t>(config.trace_bytes());
  options.sampled_per_million = static_cast<std::uint32_t>(config.otlp_sampled_per_million());
  options.seed = std::uint64_t{std::random_device()()} << 32U | std::random_device()();
  std::unique_ptr<OtlpExporter> exporter;
  if (!config.otlp_endpoint().empty()) {
    const absl::StatusOr<OtlpEndpoint> endpoint = ParseOtlpEndpoint(config.otlp_endpoint());
    if (!endpoint.ok()) return endpoint.status();
    exporter = std::make_unique<OtlpExporter>(
        OtlpExporter::Options(), std::make_unique<HttpSpanSender>(*endpoint),
        [seed = options.seed, clock](const std::vector<Timeline>& timelines) {
          return ToOtlpJson(timelines, {seed, UnixMinusMonotonic(clock->Now()), kVersion});
        });
  }
  return std::make_unique<Tracer>(options, std::move(exporter));
}

}  // namespace gemmd
