#include "server/rpc/slow_calls.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "server/admission/retry_after.h"

namespace gemmd {
namespace {

constexpr std::int64_t kRetryMs = 1000;

absl::Status Refusal(std::size_t count, const std::string& whose, std::size_t limit) {
  return WithRetryAfter(
      absl::ResourceExhaustedError(absl::StrCat(
          "the message takes long to arrive, as those of ", count, " other calls", whose,
          " do, which is the limit (", limit,
          "): send large operands by MatmulStream or Upload, which hold no memory of gRPC's")),
      kRetryMs);
}

}  // namespace

absl::Status SlowCalls::Add(const std::string& peer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (count_ >= limits_.all) return Refusal(count_, "", limits_.all);
  std::size_t& of_peer = by_peer_[peer];
  if (of_peer >= limits_.per_peer) return Refusal(of_peer, " of " + peer, limits_.per_peer);
  ++of_peer;
  ++count_;
  return absl::OkStatus();
}

void SlowCalls::Remove(const std::string& peer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  --count_;
  if (const auto found = by_peer_.find(peer); --found->second == 0) by_peer_.erase(found);
}

}  // namespace gemmd
