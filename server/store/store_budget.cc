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
  return *this;
}

void StoreHold::Release() {
  if (budget_ != nullptr) budget_->Release(tenant_, bytes_);
  budget_ = nullptr;
}

absl::StatusOr<StoreHold> StoreBudget::Reserve(const Tenant& tenant, std::uint64_t bytes,
                                               Limit* limit) {
  *limit = Limit::kNone;
  if (bytes > limit_bytes_ || bytes > tenant_bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the operand takes ", bytes, " bytes; ",
                     tenant_bytes_ < limit_bytes_ ? "a tenant may keep " : "the server keeps ",
                     std::min(tenant_bytes_, limit_bytes_)));
  }
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  const auto found = tenants_.find(tenant);
  const std::uint64_t used = found == tenants_.end() ? 0 : found->second;
  if (bytes > tenant_bytes_ - used) {
    *limit = Limit::kTenant;
    return absl::ResourceExhaustedError(
        absl::StrCat("the tenant's quota is full: the operand takes ", bytes, " bytes, and ", used,
                     " of ", tenant_bytes_, " are taken"));
  }
  if (bytes > limit_bytes_ - used_bytes_) {
    *limit = Limit::kStore;
    return absl::ResourceExhaustedError(
        absl::StrCat("the memory for operands is full: this one takes ", bytes, " bytes, and ",
                     used_bytes_, " of ", limit_bytes_, " are taken"));
  }
  used_bytes_ += bytes;
  tenants_[tenant] = used + bytes;
  return StoreHold(shared_from_this(), tenant, bytes);
}

std::uint64_t StoreBudget::used_bytes() const {
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  return used_bytes_;
}

std::uint64_t StoreBudget::used_bytes(const Tenant& tenant) const {
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second;
}

void StoreBudget::Release(const Tenant& tenant, std::uint64_t bytes) {
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  used_bytes_ -= bytes;
  const auto found = tenants_.find(tenant);
  found->second -= bytes;
  if (found->second == 0) tenants_.erase(found);
}

}  // namespace gemmd
