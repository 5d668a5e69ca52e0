// The trace headers of a call (W3C's Trace Context), as its caller gave them.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace gemmd::client {

struct TraceHeaders {
  std::string traceparent;  // "00-TRACE-PARENT-FLAGS"; empty: the call belongs to none
  std::string tracestate;   // empty: none

  bool empty() const { return traceparent.empty(); }
};

// INVALID_ARGUMENT names the header, its value and what is wrong. A tracestate without a
// traceparent is wrong.
absl::Status Check(const TraceHeaders& trace);

}  // namespace gemmd::client
