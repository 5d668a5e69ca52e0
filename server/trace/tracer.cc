#include "server/trace/tracer.h"

#include <optional>

#include "server/trace/otlp_json.h"

namespace gemmd {

void Tracer::Take(absl::StatusCode code, const Receipt& receipt) {
  const bool is_sent = exporter_ != nullptr && IsSampled(receipt);
  if (!is_sent && ring_.bytes() == 0) return;
  const TimelineBytes bytes(code, receipt);
  ring_.Write(bytes.view());
  if (is_sent) exporter_->Push(bytes.view(), 1 + receipt.spans.size());
}

bool Tracer::IsSampled(const Receipt& receipt) const {
  if (receipt.trace.context.has_value() && receipt.trace.context->is_sampled()) return true;
  constexpr std::uint64_t kMillion = 1'000'000;
  constexpr std::uint64_t kChoice = ~std::uint64_t{0};
  return RandomOf(options_.seed, receipt.request_id, kChoice) % kMillion <
         options_.sampled_per_million;
}

void Tracer::Read(const std::function<void(const Timeline&)>& visit) const {
  ring_.Read([&visit](absl::string_view record) {
    const std::optional<Timeline> timeline = ReadTimeline(record);
    if (timeline.has_value()) visit(*timeline);
  });
}

}  // namespace gemmd
