// Counts the bytes that the kernel still has to deliver for this process.
#pragma once

#include <cstdint>

namespace gemmd {

// Bytes written to this process's TCP connections that their peers have not acknowledged.
// They are lost where a connection is closed under a peer that still writes to it (its flow
// control does): the kernel then resets the connection.
std::uint64_t UnacknowledgedBytes();

}  // namespace gemmd
