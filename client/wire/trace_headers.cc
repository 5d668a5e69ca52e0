#include "client/wire/trace_headers.h"

#include "base/text/traceparent.h"

namespace gemmd::client {

absl::Status Check(const TraceHeaders& trace) {
  if (trace.traceparent.empty()) {
    if (trace.tracestate.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("tracestate goes with traceparent, which is not given");
  }
  const absl::Status parent = ParseTraceparent("traceparent", trace.traceparent).status();
  return parent.ok() ? CheckTracestate("tracestate", trace.tracestate) : parent;
}

}  // namespace gemmd::client
