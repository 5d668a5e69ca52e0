#include "server/store/store_budget.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

// One operand more.
void Add(std::uint64_t bytes, StoreShare* sum) {
  ++sum->operands;
  sum->bytes += bytes;
}

void Subtract(const StoreShare& share, StoreShare* sum) {
  sum->operands -= share.operands;
  sum->bytes -= share.bytes;
}

template <typename Key>
StoreShare UsedOf(const std::map<Key, StoreShare>& shares, const Key& key) {
  const auto found = shares.find(key);
  return found == shares.end() ? StoreShare() : found->second;
}

// Forgets whoever keeps no operand.
template <typename Key>
void SubtractFrom(std::map<Key, StoreShare>* shares, const Key& key, const StoreShare& share) {
  const auto found = shares->find(key);
  Subtract(share, &found->second);
  if (found->second.operands == 0) shares->erase(found);
}

}  // namespace

StoreHold& StoreHold::operator=(StoreHold&& other) noexcept {
  if (this == &other) return *this;
  Release();
  budget_ = std::move(other.budget_);
  tenant_ = std::move(other.tenant_);
  bytes_ = other.bytes_;
  quota_ = std::move(other.quota_);
  return *this;
}

void StoreHold::Release() {
  if (budget_ != nullptr) budget_->GiveBack(tenant_, {1, bytes_});
  budget_ = nullptr;
  quota_.Release();
}

void StoreHold::ShrinkTo(std::uint64_t bytes) {
  if (budget_ == nullptr) return;
  const std::uint64_t less = bytes_ - bytes;
  budget_->GiveBack(tenant_, {0, less});
  quota_.Split(AmountOf(Quantity::kResidentBytes, less)).Release();
  bytes_ = bytes;
}

void StoreBudget::SetLimits(const Limits& limits) {
  const MutexLock lock(mutex_);
  limits_ = limits;
}

StoreBudget::Limits StoreBudget::ReadLimits() const {
  const MutexLock lock(mutex_);
  return limits_;
}

absl::StatusOr<StoreHold> StoreBudget::Reserve(const Tenant& tenant, std::uint64_t bytes,
                                               Limit* limit) {
  *limit = Limit::kNone;
  const Limits limits = ReadLimits();
  const std::uint64_t most = std::min(limits.all.bytes, limits.tenant.bytes);
  if (bytes > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the operand takes ", bytes, " bytes; ",
        limits.tenant.bytes < limits.all.bytes ? "a tenant may keep " : "the server keeps ", most));
  }
  QuotaAccounts::Hold quota;
  if (quotas_ != nullptr) {
    absl::StatusOr<QuotaAccounts::Hold> taken =
        quotas_->Take(tenant, AmountOf(Quantity::kResidentBytes, bytes));
    if (!taken.ok()) {
      *limit = Limit::kTenant;
      return taken.status();
    }
    quota = *std::move(taken);
  }
  const MutexLock lock(mutex_);
  if (absl::Status s = CheckLocked(tenant, bytes, limit); !s.ok()) return s;
  Add(bytes, &used_);
  Add(bytes, &tenants_[tenant]);
  if (const std::string& address = AddressOf(tenant); !address.empty()) {
    Add(bytes, &addresses_[address]);
  }
  return StoreHold(shared_from_this(), tenant, bytes, std::move(quota));
}

absl::Status StoreBudget::CheckLocked(const Tenant& tenant, std::uint64_t bytes,
                                      Limit* limit) const {
  struct Bound {
    Limit limit;
    std::string whose;
    StoreShare used;
    StoreShare most;
  };
  const std::string& address = AddressOf(tenant);
  const Bound bounds[] = {
      {Limit::kTenant, "the tenant's quota is full", UsedOf(tenants_, tenant), limits_.tenant},
      {Limit::kAddress, absl::StrCat("the share of address ", address, " is full"),
       UsedOf(addresses_, address), limits_.address},
      {Limit::kStore, "the store is full", used_, limits_.all},
  };
  for (const Bound& bound : bounds) {
    if (bound.limit == Limit::kAddress && address.empty()) continue;
    *limit = bound.limit;
    if (bound.used.operands >= bound.most.operands) {
      return absl::ResourceExhaustedError(absl::StrCat(
          bound.whose, ": it keeps ", bound.used.operands, " operands and names, and no more"));
    }
    if (bound.used.bytes > bound.most.bytes || bytes > bound.most.bytes - bound.used.bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(bound.whose, ": the operand takes ", bytes,
                                                       " bytes, and ", bound.used.bytes, " of ",
                                                       bound.most.bytes, " are taken"));
    }
  }
  *limit = Limit::kNone;
  return absl::OkStatus();
}

const std::string& StoreBudget::AddressOf(const Tenant& tenant) const {
  static const auto* const none = new std::string;
  const bool is_counted = !tenant.is_proven() && proxies_.count(tenant.address()) == 0;
  return is_counted ? tenant.address() : *none;
}

std::uint64_t StoreBudget::limit_bytes() const { return ReadLimits().all.bytes; }

std::uint64_t StoreBudget::used_bytes() const {
  const MutexLock lock(mutex_);
  return used_.bytes;
}

void StoreBudget::GiveBack(const Tenant& tenant, const StoreShare& share) {
  const MutexLock lock(mutex_);
  Subtract(share, &used_);
  SubtractFrom(&tenants_, tenant, share);
  if (const std::string& address = AddressOf(tenant); !address.empty()) {
    SubtractFrom(&addresses_, address, share);
  }
}

}  // namespace gemmd
