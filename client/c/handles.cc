#include "client/c/handles.h"

#include <utility>

#include "client/c/arguments.h"

namespace gemmd::client::c {
namespace {

thread_local bool is_in_callback = false;

}  // namespace

bool IsInCallback() { return is_in_callback; }

CallbackScope::CallbackScope() : before_(std::exchange(is_in_callback, true)) {}

CallbackScope::~CallbackScope() { is_in_callback = before_; }

absl::StatusOr<WaitingCall> WaitingCall::Begin(gemmd_client* client) {
  if (absl::Status s = CheckNotNull("client", client); !s.ok()) return s;
  if (IsInCallback()) {
    return absl::FailedPreconditionError("a callback cannot call a function that waits");
  }
  auto flight = std::make_shared<Flight>();
  if (absl::Status s = client->calls->Begin(flight); !s.ok()) return s;
  return WaitingCall(client->calls, std::move(flight));
}

}  // namespace gemmd::client::c
