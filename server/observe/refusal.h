// The cause of a refusal, as one word of a fixed list: carried on a status from whoever refuses,
// counted by Statistics. Clients are not told it; their message says more.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd {

enum class RefusalCause : std::uint8_t {
  kInvalid,      // malformed, or over a fixed limit
  kNotFound,     // no such resident operand or region
  kNoKernel,     // or another precondition that does not hold
  kNotBuilt,     // a part of the contract that is not there
  kNotAllowed,   // by the policy
  kQuota,        // of the tenant
  kMemory,       // is full
  kMemoryShare,  // of one tenant or one address
  kWaiting,      // too much waits for memory, or it waited too long
  kQueue,        // is full
  kQueueShare,   // of one tenant
  kSession,      // has as many requests in flight as it may
  kDeadline,     // passed, or cannot be met
  kStalled,      // the client was too slow
  kDraining,     // the server stops
  kCancelled,    // by the client
  kDevice,       // was lost
  kOther,
};
inline constexpr std::size_t kRefusalCauses = 18;

// "memory_share".
absl::string_view Name(RefusalCause cause);

// A cause that is there already stays: the first to refuse knows best. REQUIRES: !status.ok().
absl::Status WithCause(absl::Status status, RefusalCause cause);

// Returns the cause that WithCause() set, else what the code alone tells.
RefusalCause CauseOf(const absl::Status& status);
RefusalCause CauseOf(absl::StatusCode code);

}  // namespace gemmd
