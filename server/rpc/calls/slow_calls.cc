#include "server/rpc/calls/slow_calls.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

LedgerRules Rules() {
  LedgerRules rules;
  rules.quantities[0] = {"slow_messages", "messages that take long to arrive"};
  rules.limit = "share";
  return rules;
}

}  // namespace

SlowCalls::SlowCalls(const Limits& limits)
    : proxies_(limits.proxies),
      ledger_(Rules(), {Unlimited(), Amounts{limits.per_address}, Amounts{limits.all}}) {}

absl::StatusOr<Hold> SlowCalls::Take(const std::string& address) {
  Holder holder;
  if (proxies_.count(address) == 0) holder.address = address;
  absl::StatusOr<Hold> hold = ledger_.Take(holder, {1});
  if (hold.ok()) return hold;
  return WithRetryAfter(
      absl::ResourceExhaustedError(absl::StrCat(
          hold.status().message(),
          ": send large operands by MatmulStream or Upload, which hold no memory of gRPC's")),
      WaitsFor::kClients);
}

}  // namespace gemmd
