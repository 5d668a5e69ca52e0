#include "server/rpc/calls/caller.h"

#include <functional>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/rpc/calls/peer.h"

namespace gemmd {

std::string PeerOf(const grpc::ServerContextBase& context) { return NamedPeer(context.peer()); }

Caller CallerOf(const grpc::ServerContextBase& context) {
  const std::string peer = PeerOf(context);
  return {std::hash<std::string>()(peer), AddressOf(peer), ClientOf(peer)};
}

std::uint64_t HeaderBytesOf(const grpc::ServerContextBase& context) {
  // Binary values are a third longer on the wire.
  std::uint64_t bytes = 0;
  for (const auto& [name, value] : context.client_metadata()) {
    bytes += name.size() + value.size() + value.size() / 2 + 8;
  }
  return bytes;
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
