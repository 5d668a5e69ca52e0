// Messages whose last field is memory of a result.
#pragma once

#include <cstdint>
#include <string>

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"
#include "server/device/host_buffer.h"

namespace gemmd {

// A slice that shares the piece's memory, and keeps it.
grpc::Slice SliceOf(const HostPiece& piece);

// `head`, and behind it the buffer's own memory.
grpc::ByteBuffer MessageAround(const std::string& head, const HostBuffer& payload);

}  // namespace gemmd
