#include "server/rpc/caller.h"

#include <functional>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/rpc/peer.h"

namespace gemmd {

Caller CallerOf(const grpc::ServerContextBase& context) {
  const std::string peer = context.peer();
  return {std::hash<std::string>()(peer), AddressOf(peer)};
}

TraceOrigin TraceOriginOf(const grpc::ServerContextBase& context) {
  const auto& headers = context.client_metadata();
  const auto [parent, parents_end] = headers.equal_range("traceparent");
  if (parent == parents_end || std::next(parent) != parents_end) return {};
  const auto view = [](const grpc::string_ref& text) {
    return absl::string_view(text.data(), text.size());
  };
  std::string state;
  const auto [first, end] = headers.equal_range("tracestate");
  for (auto each = first; each != end; ++each) {
    absl::StrAppend(&state, each == first ? "" : ",", view(each->second));
  }
  return ReadTraceOrigin(view(parent->second), state);
}

}  // namespace gemmd
