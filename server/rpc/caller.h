// Where a call comes from.
#pragma once

#include <cstdint>
#include <string>

#include "grpcpp/grpcpp.h"
#include "text/traceparent.h"

namespace gemmd {

struct Caller {
  std::uint64_t connection = 0;  // equal for calls of one connection; hardly ever for those of two
  std::string address;           // as AddressOf() has it
};
Caller CallerOf(const grpc::ServerContextBase& context);

// What its headers traceparent and tracestate say. Two of traceparent say nothing; several of
// tracestate are one, in their order.
TraceOrigin TraceOriginOf(const grpc::ServerContextBase& context);

}  // namespace gemmd
