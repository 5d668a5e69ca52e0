// Timelines as OpenTelemetry's ExportTraceServiceRequest in JSON
// (https://opentelemetry.io/docs/specs/otlp/,
// https://github.com/open-telemetry/opentelemetry-proto).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/trace/timeline.h"

namespace gemmd {

// The values that spans are made with.
struct OtlpContext {
  std::uint64_t seed = 0;            // of ids: another in each process
  std::int64_t unix_minus_mono = 0;  // ns between the system's clock and the server's
  absl::string_view version;         // of the server
};

// A request is one span, of kind SERVER, and each of its stages is a span within it.
std::string ToOtlpJson(absl::Span<const Timeline> timelines, const OtlpContext& context);
std::size_t SpansOf(const Timeline& timeline);

// Returns how many spans a collector's answer says that it did not take; 0 if it does not say, or
// says it in no form that is known.
std::uint64_t RejectedSpans(absl::string_view body);

// A random number of that process, which is the same each time. It is never 0.
std::uint64_t RandomOf(std::uint64_t seed, std::uint64_t request_id, std::uint64_t which);

}  // namespace gemmd
