// The trace that a call belongs to, as W3C's Trace Context says it
// (https://www.w3.org/TR/trace-context/).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd {

struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};  // not all zero
  std::array<std::uint8_t, 8> parent_id{};  // the caller's span; not all zero
  std::uint8_t flags = 0;                   // of version 00

  static constexpr std::uint8_t kSampled = 1;
  bool is_sampled() const { return (flags & kSampled) != 0; }
};

// The trace context of a caller. A value; empty for almost all.
struct TraceOrigin {
  std::optional<TraceContext> context;
  std::string state;  // tracestate's value; empty: none, and always so without a context
};

// "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01": exactly so in version 00; of a later
// version what comes first must be so, and a dash must follow it, if anything does.
// INVALID_ARGUMENT names the field, its value and what is wrong with it.
absl::StatusOr<TraceContext> ParseTraceparent(absl::string_view field, absl::string_view text);

// Writes version 00.
std::string ToTraceparent(const TraceContext& context);

// KEY=VALUE,...: at most 512 characters and 32 members, no key twice. INVALID_ARGUMENT as above.
absl::Status CheckTracestate(absl::string_view field, absl::string_view text);

// Reads the two headers together, as a server does: a traceparent that is none counts as absent,
// with its tracestate, and so does a tracestate that is none; neither is the request's fault.
TraceOrigin ReadTraceOrigin(absl::string_view traceparent, absl::string_view tracestate);

// Lower case.
std::string ToHex(const std::uint8_t* bytes, std::size_t size);

}  // namespace gemmd
