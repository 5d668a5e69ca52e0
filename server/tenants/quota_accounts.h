// Counts what tenants take against their quotas.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time/clock.h"
#include "server/tenants/quota.h"
#include "server/tenants/tenant.h"

namespace gemmd {

// Indexed by Quantity.
using QuotaAmounts = std::array<std::uint64_t, kQuantities>;

QuotaAmounts AmountOf(Quantity quantity, std::uint64_t amount);

// Returns whether a status is a quota's refusal: it ends when the tenant's own use does, not with
// that of others.
bool IsQuotaRefusal(const absl::Status& status);

// Counts what is held by tenants whose quota has an account. All of it is counted, limited or not,
// so that a limit that the policy file gets counts what was taken before. A tenant that holds
// nothing and owes no time is forgotten. Thread-safe.
//
// Device time is paid at the rate of the quota: a tenant that owes no more than kBurst may begin a
// request, however long. It owes what the request is predicted to take, and from its end on what
// it took.
class QuotaAccounts {
 private:
  struct Account;
  struct State;

 public:
  static constexpr TimeNs kBurst = 1000000000;

  // Amounts that are held until it is destroyed. Movable; may outlive the accounts.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept { *this = std::move(other); }
    Hold& operator=(Hold&& other) noexcept;
    ~Hold() { Release(); }

    void Release();
    // Moves some of its amounts to a hold of their own, without device time. REQUIRES: it has them.
    Hold Split(const QuotaAmounts& amounts);
    // From now on the tenant owes `us` for this hold, instead of what it owed before, and nothing
    // if it is released like that. Negative times and those that are no number count as 0.
    void OweDeviceTime(double us);
    // Charges the tenant `us` for this hold for good, instead of what it owed: the device has
    // worked that long.
    void SettleDeviceTime(double us);

   private:
    friend class QuotaAccounts;

    std::shared_ptr<State> state_;  // null: it holds nothing
    Account* account_ = nullptr;
    QuotaAmounts amounts_{};
    double device_share_ = 0;  // of the quota when it was taken; 0: not limited
    TimeNs owed_ = 0;          // that paying for this hold takes, if it is not settled
  };

  // `on_refusal`: called for refusals, on any thread; may be null.
  using OnRefusal = std::function<void(const Tenant& tenant, const absl::Status& refusal)>;
  explicit QuotaAccounts(const Clock* clock, OnRefusal on_refusal = nullptr);

  // Those of a tenant without a quota are empty. A refusal names quota, use and limit:
  //   PERMISSION_DENIED   the limit is 0
  //   INVALID_ARGUMENT    more than the limit at once
  //   RESOURCE_EXHAUSTED  more than the limit with what is held, or, with kRequests, too much
  //                       device time is owed; carries RetryAfterMs()
  absl::StatusOr<Hold> Take(const Tenant& tenant, const QuotaAmounts& amounts);

  // Tells `on_refusal` of a status that the tenant is answered, where it IsQuotaRefusal(). It is
  // apart from Take(), because some callers make room and try again.
  void Report(const Tenant& tenant, const absl::Status& status) const;

  // The present use of the tenant's account.
  struct Use {
    QuotaAmounts amounts{};
    TimeNs owed = 0;  // until all device time is paid
  };
  Use UseOf(const Tenant& tenant) const;

  // Accounts that hold or owe something, or did when it was last looked.
  std::size_t size() const;

 private:
  const std::shared_ptr<State> state_;
  const OnRefusal on_refusal_;
};

}  // namespace gemmd
