// A header that is taken for a trace context is one, and is written as it was read. The first line
// is traceparent, the rest tracestate.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/text/traceparent.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string parent = text.substr(0, end);
  const std::string state = text.substr(std::min(end + 1, text.size()));
  const auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };
  const absl::StatusOr<gemmd::TraceContext> context = gemmd::ParseTraceparent("t", parent);
  if (context.ok()) {
    const std::string again = gemmd::ToTraceparent(*context);
    if (again.substr(2, 51) != parent.substr(2, 51)) std::abort();
    if (parent.substr(0, 2) == "00" && again != parent) std::abort();
    if (!std::all_of(parent.begin(), parent.end(), is_printable)) std::abort();
  }
  // gRPC ends the process over a header that has other characters.
  if (gemmd::CheckTracestate("s", state).ok() &&
      !(state.size() <= 512 && std::all_of(state.begin(), state.end(), is_printable))) {
    std::abort();
  }
  const gemmd::TraceOrigin origin = gemmd::ReadTraceOrigin(parent, state);
  if (origin.context.has_value() != context.ok()) std::abort();
  if (!origin.state.empty() && origin.state != state) std::abort();
  return 0;
}
