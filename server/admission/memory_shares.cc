#include "server/admission/memory_shares.h"

#include <algorithm>

#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "base/text/quoted.h"
#include "server/admission/percent.h"

namespace gemmd {
namespace {

void Add(const MemoryBytes& bytes, MemoryBytes* sum) {
  sum->device += bytes.device;
  sum->small += bytes.small;
  sum->large += bytes.large;
  sum->ordinary += bytes.ordinary;
}

void Subtract(const MemoryBytes& bytes, MemoryBytes* sum) {
  sum->device -= bytes.device;
  sum->small -= bytes.small;
  sum->large -= bytes.large;
  sum->ordinary -= bytes.ordinary;
}

}  // namespace

struct MemoryShares::State {
  using Accounts = absl::node_hash_map<std::string, Account>;

  // OK: `bytes` may be added to the account.
  absl::Status Check(absl::string_view who, const Entry& entry, const MemoryBytes& bytes) const {
    if (entry.second.charges == 0) return absl::OkStatus();
    const MemoryBytes& held = entry.second.bytes;
    const auto check = [&](absl::string_view what, std::uint64_t has, std::uint64_t wants,
                           std::uint64_t share) {
      if (has <= share && wants <= share - has) return absl::OkStatus();
      return absl::ResourceExhaustedError(absl::StrCat(
          who, " ", Quoted(entry.first), " holds ", has, " bytes of ", what, ", the request needs ",
          wants, ", and the share of one is ", share, " (scheduling.tenant_percent)"));
    };
    absl::Status status = check("device memory", held.device, bytes.device, shares.device);
    status.Update(
        check("page-locked memory for small planes", held.small, bytes.small, shares.small));
    status.Update(check("page-locked memory", held.large, bytes.large, shares.large));
    status.Update(check("host memory", held.ordinary, bytes.ordinary, shares.ordinary));
    return status;
  }

  static void Release(Accounts* accounts, Entry* entry, const MemoryBytes& bytes) {
    Subtract(bytes, &entry->second.bytes);
    if (--entry->second.charges == 0) accounts->erase(accounts->find(entry->first));
  }

  static void EraseIfUnused(Accounts* accounts, const Entry& entry) {
    if (entry.second.charges == 0) accounts->erase(accounts->find(entry.first));
  }

  MemoryBytes shares;

  AdaptiveMutex mutex;
  MemoryBytes held ABSL_GUARDED_BY(mutex);  // by all tenants
  Accounts tenants ABSL_GUARDED_BY(mutex);
  Accounts peers ABSL_GUARDED_BY(mutex);
  std::function<void()> on_release ABSL_GUARDED_BY(mutex);
};

MemoryShares::Charge& MemoryShares::Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  Release();
  state_ = std::move(other.state_);
  tenant_ = other.tenant_;
  peer_ = other.peer_;
  bytes_ = other.bytes_;
  return *this;
}

void MemoryShares::Charge::Release() {
  if (state_ == nullptr) return;
  {
    const MutexLock lock(state_->mutex);
    Subtract(bytes_, &state_->held);
    State::Release(&state_->tenants, tenant_, bytes_);
    State::Release(&state_->peers, peer_, bytes_);
    if (state_->on_release) state_->on_release();
  }
  state_ = nullptr;
}

MemoryShares::Charge MemoryShares::Charge::Split(const MemoryBytes& bytes) {
  Charge part;
  if (state_ == nullptr) return part;
  part.state_ = state_;
  part.tenant_ = tenant_;
  part.peer_ = peer_;
  part.bytes_ = bytes;
  Subtract(bytes, &bytes_);
  const MutexLock lock(state_->mutex);
  ++tenant_->second.charges;
  ++peer_->second.charges;
  return part;
}

MemoryShares::MemoryShares(const MemoryBytes& limits, int percent, std::function<void()> on_release)
    : state_(std::make_shared<State>()) {
  state_->shares = {PercentOf(limits.device, percent), PercentOf(limits.small, percent),
                    PercentOf(limits.large, percent), PercentOf(limits.ordinary, percent)};
  state_->on_release = std::move(on_release);
}

MemoryShares::~MemoryShares() {
  const MutexLock lock(state_->mutex);
  state_->on_release = nullptr;
}

absl::StatusOr<MemoryShares::Charge> MemoryShares::Take(const MemoryHolder& holder,
                                                        const MemoryBytes& bytes) {
  const MutexLock lock(state_->mutex);
  Entry* const tenant = &*state_->tenants.try_emplace(holder.tenant).first;
  Entry* const peer = &*state_->peers.try_emplace(holder.peer).first;
  absl::Status status = state_->Check("tenant", *tenant, bytes);
  status.Update(state_->Check("address", *peer, bytes));
  if (!status.ok()) {
    State::EraseIfUnused(&state_->tenants, *tenant);
    State::EraseIfUnused(&state_->peers, *peer);
    return status;
  }
  for (Entry* const entry : {tenant, peer}) {
    ++entry->second.charges;
    Add(bytes, &entry->second.bytes);
  }
  Add(bytes, &state_->held);
  Charge charge;
  charge.state_ = state_;
  charge.tenant_ = tenant;
  charge.peer_ = peer;
  charge.bytes_ = bytes;
  return charge;
}

std::uint64_t MemoryShares::HeldBy(const MemoryHolder& holder) const {
  const auto total_of = [](const State::Accounts& accounts, const std::string& name) {
    const auto found = accounts.find(name);
    return found == accounts.end() ? 0 : found->second.bytes.total();
  };
  const MutexLock lock(state_->mutex);
  return std::max(total_of(state_->tenants, holder.tenant), total_of(state_->peers, holder.peer));
}

MemoryBytes MemoryShares::held() const {
  const MutexLock lock(state_->mutex);
  return state_->held;
}

std::size_t MemoryShares::holders() const {
  const MutexLock lock(state_->mutex);
  return state_->tenants.size() + state_->peers.size();
}

}  // namespace gemmd
