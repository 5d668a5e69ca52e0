// Counts what tenants keep: all together against the store's limit, each against its quota.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "server/tenants/quota_accounts.h"
#include "server/tenants/tenant.h"

namespace gemmd {

class StoreBudget;

// So many operands, and bytes of them together.
struct StoreShare {
  std::uint64_t operands = 0;
  std::uint64_t bytes = 0;
};

// One operand of a tenant's, with its bytes, held until destroyed. Movable.
class StoreHold {
 public:
  StoreHold() = default;
  StoreHold(StoreHold&& other) noexcept { *this = std::move(other); }
  StoreHold& operator=(StoreHold&& other) noexcept;
  ~StoreHold() { Release(); }

  void Release();
  // Gives back all but so many bytes. REQUIRES: it has them.
  void ShrinkTo(std::uint64_t bytes);

 private:
  friend class StoreBudget;
  StoreHold(std::shared_ptr<StoreBudget> budget, Tenant tenant, std::uint64_t bytes,
            QuotaAccounts::Hold quota)
      : budget_(std::move(budget)),
        tenant_(std::move(tenant)),
        bytes_(bytes),
        quota_(std::move(quota)) {}

  std::shared_ptr<StoreBudget> budget_;
  Tenant tenant_;
  std::uint64_t bytes_ = 0;
  QuotaAccounts::Hold quota_;
};

// Thread-safe.
class StoreBudget : public std::enable_shared_from_this<StoreBudget> {
 public:
  // `quotas` outlives it; null: the policy limits nobody.
  StoreBudget(const StoreShare& all, const StoreShare& tenant, QuotaAccounts* quotas = nullptr)
      : all_(all), tenant_(tenant), quotas_(quotas) {}

  // The limit that stands in the way.
  enum class Limit : std::uint8_t { kNone, kStore, kTenant };

  // RESOURCE_EXHAUSTED: does not fit now; `*limit` says why. INVALID_ARGUMENT: it never does, not
  // even alone in its tenant's share. Also the errors of QuotaAccounts::Take().
  absl::StatusOr<StoreHold> Reserve(const Tenant& tenant, std::uint64_t bytes, Limit* limit);

  std::uint64_t limit_bytes() const { return all_.bytes; }
  std::uint64_t used_bytes() const;

 private:
  friend class StoreHold;
  void Release(const Tenant& tenant, std::uint64_t bytes);
  void GiveBack(const Tenant& tenant, std::uint64_t bytes);

  const StoreShare all_;
  const StoreShare tenant_;
  QuotaAccounts* const quotas_;
  mutable AdaptiveMutex mutex_;
  StoreShare used_ ABSL_GUARDED_BY(mutex_);
  std::map<Tenant, StoreShare> tenants_ ABSL_GUARDED_BY(mutex_);  // none without operands
};

}  // namespace gemmd
