// Counts what tenants keep: all together against the store's limit, each against its share and its
// quota, and each address against its share.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/holdings/ledger.h"
#include "server/holdings/quotas.h"
#include "server/tenants/tenant.h"

namespace gemmd {

// A number of operands, and of their bytes together.
struct StoreShare {
  std::uint64_t operands = 0;
  std::uint64_t bytes = 0;
};

// One operand of a tenant's, with its bytes. In the store it is shared by all that has the
// operand's memory (KeepWith() in server/device/host_buffer.h): a product, a download, a check of a
// result. So a name that is released gives nothing back before the last of them lets go.
class StoreHold {
 public:
  StoreHold() = default;

  // Gives back all but so many bytes. REQUIRES: it has them.
  void ShrinkTo(std::uint64_t bytes);

 private:
  friend class StoreBudget;
  StoreHold(Hold place, Hold quota) : place_(std::move(place)), quota_(std::move(quota)) {}

  Hold place_;
  Hold quota_;
};

// Thread-safe.
class StoreBudget {
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
                       Quotas* quotas = nullptr);

  // Other limits from here on. Operands that are held stay, even where these allow less.
  void SetLimits(const Limits& limits);

  // Errors as of a ledger that refuses for good.
  absl::StatusOr<StoreHold> Reserve(const Tenant& tenant, std::uint64_t bytes);

  // The address in whose share what the tenant keeps counts; empty: in none.
  const std::string& AddressOf(const Tenant& tenant) const;

  std::uint64_t limit_bytes() const;
  std::uint64_t used_bytes() const;
  const Ledger& ledger() const { return ledger_; }

 private:
  const std::set<std::string> proxies_;
  Quotas* const quotas_;
  Ledger ledger_;
};

}  // namespace gemmd
