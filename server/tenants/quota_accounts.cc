#include "server/tenants/quota_accounts.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/container/node_hash_map.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/sync/mutex.h"
#include "base/time/units.h"
#include "server/observe/refusal.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

constexpr char kRefusalUrl[] = "gemmd/quota";

WaitsFor HolderOf(Quantity quantity) {
  const bool is_of_request = quantity == Quantity::kRequests || quantity == Quantity::kRequestBytes;
  return is_of_request ? WaitsFor::kRequests : WaitsFor::kLeases;
}

// A day of debt is as good as any longer one, and sums of many do not overflow.
constexpr double kLongestNs = 8.64e13;

TimeNs TimeToPay(double us, double device_share) {
  if (!(us > 0) || device_share <= 0) return 0;
  return static_cast<TimeNs>(std::min(us * 1e3 / device_share, kLongestNs));
}

absl::Status Refusal(absl::Status status) {
  status.SetPayload(kRefusalUrl, absl::Cord());
  return WithCause(std::move(status), RefusalCause::kQuota);
}

}  // namespace

absl::string_view Name(Quantity quantity) {
  switch (quantity) {
    case Quantity::kRequests:
      return "requests";
    case Quantity::kRequestBytes:
      return "request_bytes";
    case Quantity::kResidentBytes:
      return "resident_bytes";
    case Quantity::kRegions:
      return "regions";
    case Quantity::kConnections:
      return "connections";
  }
  return "";
}

QuotaAmounts AmountOf(Quantity quantity, std::uint64_t amount) {
  QuotaAmounts amounts{};
  amounts[static_cast<std::size_t>(quantity)] = amount;
  return amounts;
}

bool IsQuotaRefusal(const absl::Status& status) {
  return status.GetPayload(kRefusalUrl).has_value();
}

struct QuotaAccounts::Account {
  std::string name;
  std::size_t holds = 0;
  QuotaAmounts amounts{};
  TimeNs paid_at = 0;  // when all device time that is owed is paid; past: none is
};

struct QuotaAccounts::State {
  explicit State(const Clock* its_clock) : clock(its_clock) {}

  Account* Enter(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const auto [found, is_new] = accounts.try_emplace(name);
    Account* const account = &found->second;
    if (is_new) {
      account->name = name;
    } else if (account->holds == 0) {
      idle.erase({account->paid_at, account});
    }
    ++account->holds;
    return account;
  }

  void Leave(Account* account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (--account->holds == 0) idle.emplace(account->paid_at, account);
    const TimeNs now = clock->Now();
    while (!idle.empty() && idle.begin()->first <= now) {
      Account* const paid = idle.begin()->second;
      idle.erase(idle.begin());
      accounts.erase(accounts.find(paid->name));
    }
  }

  const Clock* const clock;
  mutable AdaptiveMutex mutex;
  absl::node_hash_map<std::string, Account> accounts ABSL_GUARDED_BY(mutex);
  // Accounts that hold nothing, by the time at which they have paid.
  std::set<std::pair<TimeNs, Account*>> idle ABSL_GUARDED_BY(mutex);
};

QuotaAccounts::Hold& QuotaAccounts::Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  Release();
  state_ = std::move(other.state_);
  account_ = other.account_;
  amounts_ = other.amounts_;
  device_share_ = other.device_share_;
  owed_ = other.owed_;
  return *this;
}

void QuotaAccounts::Hold::Release() {
  if (state_ == nullptr) return;
  const std::shared_ptr<State> state = std::move(state_);
  const MutexLock lock(state->mutex);
  for (std::size_t i = 0; i < kQuantities; ++i) account_->amounts[i] -= amounts_[i];
  account_->paid_at -= std::exchange(owed_, 0);
  state->Leave(account_);
}

QuotaAccounts::Hold QuotaAccounts::Hold::Split(const QuotaAmounts& amounts) {
  Hold part;
  if (state_ == nullptr) return part;
  part.state_ = state_;
  part.account_ = account_;
  part.amounts_ = amounts;
  for (std::size_t i = 0; i < kQuantities; ++i) amounts_[i] -= amounts[i];
  const MutexLock lock(state_->mutex);
  ++account_->holds;
  return part;
}

void QuotaAccounts::Hold::OweDeviceTime(double us) {
  if (state_ == nullptr || device_share_ == 0) return;
  const TimeNs owed = TimeToPay(us, device_share_);
  const MutexLock lock(state_->mutex);
  // Debt that is already paid is not given back as credit.
  account_->paid_at = std::max(account_->paid_at, state_->clock->Now());
  account_->paid_at += owed - owed_;
  owed_ = owed;
}

void QuotaAccounts::Hold::SettleDeviceTime(double us) {
  OweDeviceTime(us);
  owed_ = 0;
}

QuotaAccounts::QuotaAccounts(const Clock* clock, OnRefusal on_refusal)
    : state_(std::make_shared<State>(clock)), on_refusal_(std::move(on_refusal)) {}

absl::StatusOr<QuotaAccounts::Hold> QuotaAccounts::Take(const Tenant& tenant,
                                                        const QuotaAmounts& amounts) {
  if (tenant.quota() == nullptr) return Hold();
  const Quota& quota = *tenant.quota();
  for (const Quantity quantity : kAllQuantities) {
    const std::uint64_t wanted = amounts[static_cast<std::size_t>(quantity)];
    const std::optional<std::uint64_t> limit = quota.limit(quantity);
    if (!limit.has_value() || wanted <= *limit) continue;
    const std::string text = absl::StrCat("the tenant's quota of ", Name(quantity), " is ", *limit);
    if (*limit == 0) return Refusal(absl::PermissionDeniedError(text));
    return Refusal(absl::InvalidArgumentError(absl::StrCat(text, ", and this takes ", wanted)));
  }
  const MutexLock lock(state_->mutex);
  Account* const account = state_->Enter(quota.account);
  absl::Status status;
  for (const Quantity quantity : kAllQuantities) {
    const std::size_t i = static_cast<std::size_t>(quantity);
    const std::optional<std::uint64_t> limit = quota.limit(quantity);
    const std::uint64_t held = account->amounts[i];
    // A request that takes nothing of it is not refused for it, though a new limit may be below
    // what is held.
    if (amounts[i] == 0 || !limit.has_value()) continue;
    if (held <= *limit && amounts[i] <= *limit - held) continue;
    status.Update(WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(
                                     "the tenant's quota of ", Name(quantity), " is ", *limit, ", ",
                                     held, " are taken, and this takes ", amounts[i])),
                                 HolderOf(quantity)));
  }
  const bool is_request = amounts[static_cast<std::size_t>(Quantity::kRequests)] != 0;
  if (is_request && quota.device_share.has_value()) {
    const TimeNs owed = account->paid_at - state_->clock->Now();
    if (owed > kBurst) {
      status.Update(WithRetryAfter(
          absl::ResourceExhaustedError(absl::StrCat(
              "the tenant's quota of device_ms_per_second is ", *quota.device_share * 1e3,
              ", and at that rate what it took is paid for in ", owed / kMillisecond,
              " ms; the limit is ", kBurst / kMillisecond)),
          WaitsFor::kRequests, (owed - kBurst + kMillisecond - 1) / kMillisecond));
    }
  }
  if (!status.ok()) {
    state_->Leave(account);
    return Refusal(std::move(status));
  }
  for (std::size_t i = 0; i < kQuantities; ++i) account->amounts[i] += amounts[i];
  Hold hold;
  hold.state_ = state_;
  hold.account_ = account;
  hold.amounts_ = amounts;
  hold.device_share_ = quota.device_share.value_or(0);
  return hold;
}

void QuotaAccounts::Report(const Tenant& tenant, const absl::Status& status) const {
  if (on_refusal_ && IsQuotaRefusal(status)) on_refusal_(tenant, status);
}

QuotaAccounts::Use QuotaAccounts::UseOf(const Tenant& tenant) const {
  Use use;
  if (tenant.quota() == nullptr) return use;
  const MutexLock lock(state_->mutex);
  const auto found = state_->accounts.find(tenant.quota()->account);
  if (found == state_->accounts.end()) return use;
  use.amounts = found->second.amounts;
  use.owed = std::max<TimeNs>(0, found->second.paid_at - state_->clock->Now());
  return use;
}

std::size_t QuotaAccounts::size() const {
  const MutexLock lock(state_->mutex);
  return state_->accounts.size();
}

}  // namespace gemmd
