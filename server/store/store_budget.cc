#include "server/store/store_budget.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gemmd {

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
  if (budget_ != nullptr) budget_->Release(tenant_, bytes_);
  budget_ = nullptr;
  quota_.Release();
}

void StoreHold::ShrinkTo(std::uint64_t bytes) {
  if (budget_ == nullptr) return;
  const std::uint64_t less = bytes_ - bytes;
  budget_->GiveBack(tenant_, less);
  quota_.Split(AmountOf(Quantity::kResidentBytes, less)).Release();
  bytes_ = bytes;
}

absl::StatusOr<StoreHold> StoreBudget::Reserve(const Tenant& tenant, std::uint64_t bytes,
                                               Limit* limit) {
  *limit = Limit::kNone;
  if (bytes > all_.bytes || bytes > tenant_.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the operand takes ", bytes, " bytes; ",
                     tenant_.bytes < all_.bytes ? "a tenant may keep " : "the server keeps ",
                     std::min(tenant_.bytes, all_.bytes)));
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
  const auto found = tenants_.find(tenant);
  const StoreShare used = found == tenants_.end() ? StoreShare() : found->second;
  if (used.operands >= tenant_.operands) {
    *limit = Limit::kTenant;
    return absl::ResourceExhaustedError(absl::StrCat("the tenant's quota is full: it keeps ",
                                                     used.operands, " operands, and no more"));
  }
  if (bytes > tenant_.bytes - used.bytes) {
    *limit = Limit::kTenant;
    return absl::ResourceExhaustedError(
        absl::StrCat("the tenant's quota is full: the operand takes ", bytes, " bytes, and ",
                     used.bytes, " of ", tenant_.bytes, " are taken"));
  }
  if (used_.operands >= all_.operands) {
    *limit = Limit::kStore;
    return absl::ResourceExhaustedError(
        absl::StrCat("the server keeps ", used_.operands, " operands, and no more"));
  }
  if (bytes > all_.bytes - used_.bytes) {
    *limit = Limit::kStore;
    return absl::ResourceExhaustedError(
        absl::StrCat("the memory for operands is full: this one takes ", bytes, " bytes, and ",
                     used_.bytes, " of ", all_.bytes, " are taken"));
  }
  used_ = {used_.operands + 1, used_.bytes + bytes};
  tenants_[tenant] = {used.operands + 1, used.bytes + bytes};
  return StoreHold(shared_from_this(), tenant, bytes, std::move(quota));
}

std::uint64_t StoreBudget::used_bytes() const {
  const MutexLock lock(mutex_);
  return used_.bytes;
}

void StoreBudget::GiveBack(const Tenant& tenant, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  used_.bytes -= bytes;
  tenants_.at(tenant).bytes -= bytes;
}

void StoreBudget::Release(const Tenant& tenant, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  used_ = {used_.operands - 1, used_.bytes - bytes};
  const auto found = tenants_.find(tenant);
  found->second = {found->second.operands - 1, found->second.bytes - bytes};
  if (found->second.operands == 0) tenants_.erase(found);
}

}  // namespace gemmd
