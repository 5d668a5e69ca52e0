#include "server/rpc/calls/slow_calls.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

absl::Status Refusal(std::size_t count, const std::string& whose, std::size_t limit) {
  return WithRetryAfter(
      absl::ResourceExhaustedError(absl::StrCat(
          "the message takes long to arrive, as those of ", count, " other calls", whose,
          " do, which is the limit (", limit,
          "): send large operands by MatmulStream or Upload, which hold no memory of gRPC's")),
      WaitsFor::kClients);
}

}  // namespace

absl::Status SlowCalls::Add(const std::string& address) {
  const MutexLock lock(mutex_);
  if (count_ >= limits_.all) return Refusal(count_, "", limits_.all);
  const auto found = addresses_.try_emplace(address, 0).first;
  if (found->second >= limits_.per_address && limits_.proxies.count(address) == 0) {
    return Refusal(found->second, " of address " + address, limits_.per_address);
  }
  ++found->second;
  ++count_;
  return absl::OkStatus();
}

void SlowCalls::Remove(const std::string& address) {
  const MutexLock lock(mutex_);
  --count_;
  if (const auto found = addresses_.find(address); --found->second == 0) addresses_.erase(found);
}

}  // namespace gemmd
