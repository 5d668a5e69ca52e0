// The origin of a call: its connection and its trace.
#pragma once

#include <cstdint>
#include <string>

#include "base/text/traceparent.h"
#include "grpcpp/grpcpp.h"

namespace gemmd {

// The peer as NamedPeer() has it. Everything that asks who a call's peer is asks here.
std::string PeerOf(const grpc::ServerContextBase& context);

struct Caller {
  std::uint64_t connection = 0;  // equal for calls of one connection; hardly ever for those of two
  std::string address;           // as AddressOf() has it
  std::string endpoint;          // as ClientOf() has it
};
Caller CallerOf(const grpc::ServerContextBase& context);

// About the bytes that the call's own headers have, as they are and not as HPACK packs them.
std::uint64_t HeaderBytesOf(const grpc::ServerContextBase& context);

// Reads the headers traceparent and tracestate. Two of traceparent count as none; several of
// tracestate are one, in their order.
TraceOrigin TraceOriginOf(const grpc::ServerContextBase& context);

}  // namespace gemmd
