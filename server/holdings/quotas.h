// Counts what tenants take against their quotas.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time/clock.h"
#include "server/holdings/ledger.h"
#include "server/tenants/quota.h"
#include "server/tenants/tenant.h"

namespace gemmd {

static_assert(kQuantities <= kMostQuantities);

Amounts AmountOf(Quantity quantity, std::uint64_t amount);

// Returns whether a status is a quota's refusal: it ends when the tenant's own use does, not with
// that of others.
bool IsQuotaRefusal(const absl::Status& status);

// A ledger of the tenants whose quota has an account, by Quantity. All of it is counted, limited or
// not, so that a limit that the policy file gets counts what was taken before. Thread-safe.
class Quotas {
 public:
  // `on_refusal`: called for refusals, on any thread; may be null.
  using OnRefusal = std::function<void(const Tenant& tenant, const absl::Status& refusal)>;
  explicit Quotas(const Clock* clock, OnRefusal on_refusal = nullptr);

  // Those of a tenant without a quota are empty. Errors as of a ledger that refuses for good; only
  // a request owes device time.
  absl::StatusOr<Hold> Take(const Tenant& tenant, const Amounts& amounts);

  // Tells `on_refusal` of a status that the tenant is answered, where it IsQuotaRefusal(). It is
  // apart from Take(), because some callers make room and try again.
  void Report(const Tenant& tenant, const absl::Status& status) const;

  // The present use of the tenant's account.
  Ledger::Use UseOf(const Tenant& tenant) const;
  // Accounts that hold or owe something, or did when it was last looked.
  std::size_t size() const { return ledger_.holders(); }
  const Ledger& ledger() const { return ledger_; }

 private:
  Ledger ledger_;
  const OnRefusal on_refusal_;
};

}  // namespace gemmd
