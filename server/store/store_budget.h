// Counts what tenants keep: all together against the store's limit, each against its share and its
// quota, and each address against its share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "server/tenants/quota_accounts.h"
#include "server/tenants/tenant.h"

namespace gemmd {

class StoreBudget;

// A number of operands, and of their bytes together.
struct StoreShare {
  std::uint64_t operands = 0;
  std::uint64_t bytes = 0;
};

// One operand of a tenant's, with its bytes, held until destroyed. Movable. In the store it is
// shared by all that has the operand's memory (KeepWith() in server/device/host_buffer.h): a
// product, a download, a check of a result. So a name that is released gives nothing back before
// the last of them lets go.
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
  struct Limits {
    StoreShare all;
    StoreShare tenant;  // of each
    // Bounds together the tenants who only claim their names, and whose calls came from one
    // address: names are free, so a tenant's share bounds nobody who takes several.
    StoreShare address;
  };
  // `proxies`: addresses that many clients share, without a limit. `quotas` outlives it; null: the
  // policy limits nobody.
  explicit StoreBudget(const Limits& limits, std::set<std::string> proxies = {},
                       QuotaAccounts* quotas = nullptr)
      : proxies_(std::move(proxies)), quotas_(quotas), limits_(limits) {}

  // Other limits from here on. Operands that are held stay, even where these allow less.
  void SetLimits(const Limits& limits);

  // The limit that stands in the way.
  enum class Limit : std::uint8_t { kNone, kStore, kTenant, kAddress };

  // RESOURCE_EXHAUSTED: does not fit now; `*limit` says why. INVALID_ARGUMENT: it never does, not
  // even alone in its tenant's share. Also the errors of QuotaAccounts::Take().
  absl::StatusOr<StoreHold> Reserve(const Tenant& tenant, std::uint64_t bytes, Limit* limit);

  // The address in whose share what the tenant keeps counts; empty: in none.
  const std::string& AddressOf(const Tenant& tenant) const;

  std::uint64_t limit_bytes() const;
  std::uint64_t used_bytes() const;

 private:
  friend class StoreHold;
  template <typename Key>
  using Shares = std::map<Key, StoreShare>;  // none without operands

  Limits ReadLimits() const;
  absl::Status CheckLocked(const Tenant& tenant, std::uint64_t bytes, Limit* limit) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes `share` off what is used of the store, by the tenant and by its address.
  void GiveBack(const Tenant& tenant, const StoreShare& share);

  const std::set<std::string> proxies_;
  QuotaAccounts* const quotas_;
  mutable AdaptiveMutex mutex_;
  Limits limits_ ABSL_GUARDED_BY(mutex_);
  StoreShare used_ ABSL_GUARDED_BY(mutex_);
  Shares<Tenant> tenants_ ABSL_GUARDED_BY(mutex_);
  Shares<std::string> addresses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
