#include "server/holdings/ledger.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/sync/mutex.h"
#include "base/time/units.h"

namespace gemmd {
namespace {

constexpr char kPartyUrl[] = "gemmd/holdings-party";
constexpr std::array<absl::string_view, kParties> kPartyNames = {"tenant", "address", "all"};
constexpr auto kAll = static_cast<std::size_t>(Party::kAll);

// A day of debt is as good as any longer one, and sums of many do not overflow.
constexpr double kLongestNs = 8.64e13;

TimeNs TimeToPay(double us, double device_share) {
  if (!(us > 0) || device_share <= 0) return 0;
  return static_cast<TimeNs>(std::min(us * 1e3 / device_share, kLongestNs));
}

absl::Status By(std::size_t party, absl::Status status) {
  status.SetPayload(kPartyUrl, absl::Cord(kPartyNames[party]));
  return status;
}

}  // namespace

struct LedgerAccount {
  std::size_t party = kAll;
  std::string name;
  std::size_t holds = 0;
  Amounts amounts{};
  std::optional<Amounts> own_limits;  // of the terms that came last
  TimeNs paid_at = 0;                 // when all device time that is owed is paid; past: none is
};

struct LedgerState {
  LedgerState(const LedgerRules& its_rules, const Clock* its_clock)
      : rules(its_rules), clock(its_clock) {}

  TimeNs Now() const { return clock == nullptr ? 0 : clock->Now(); }

  LedgerAccount* Enter(Party party, const std::optional<std::string>& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (!name.has_value()) return nullptr;
    const auto which = static_cast<std::size_t>(party);
    const auto [found, is_new] = named[which].try_emplace(*name);
    LedgerAccount* const account = &found->second;
    if (is_new) {
      account->party = which;
      account->name = *name;
    } else if (account->holds == 0) {
      idle.erase({account->paid_at, account});
    }
    ++account->holds;
    return account;
  }

  void Forget(const LedgerAccount* account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    auto& accounts = named[account->party];
    accounts.erase(accounts.find(account->name));
  }

  void Leave(LedgerAccount* account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (account == nullptr || --account->holds != 0 || account->party == kAll) return;
    idle.emplace(account->paid_at, account);
    const TimeNs now = Now();
    while (!idle.empty() && idle.begin()->first <= now) {
      const LedgerAccount* const paid = idle.begin()->second;
      idle.erase(idle.begin());
      Forget(paid);
    }
  }

  // Names the limit: "the tenant's quota of requests is 3".
  std::string Named(std::size_t party, const std::optional<std::string>& address,
                    std::size_t quantity, std::uint64_t limit) const {
    const std::string whose =
        party == kAll ? "the limit"
        : party == static_cast<std::size_t>(Party::kTenant)
            ? absl::StrCat("the tenant's ", rules.limit)
            : absl::StrCat("the ", rules.limit, " of address ", address.value_or(""));
    return absl::StrCat(whose, " of ", rules.quantities[quantity].words, " is ", limit);
  }

  std::string Option(std::size_t party, std::size_t quantity) const {
    const absl::string_view option =
        party == kAll ? rules.quantities[quantity].option : rules.option;
    return option.empty() ? "" : absl::StrCat(" (", option, ")");
  }

  // Refuses what no use of others is in the way of. The least limit is named.
  absl::Status CheckAlone(const Holder& holder, const LimitTable& table,
                          const Amounts& amounts) const {
    for (std::size_t i = 0; i < kMostQuantities; ++i) {
      std::size_t least = kAll;
      for (std::size_t party = 0; party < kAll; ++party) {
        const bool is_counted = (party == 0 ? holder.tenant : holder.address).has_value();
        if (is_counted && table[party][i] < table[least][i]) least = party;
      }
      const std::uint64_t limit = table[least][i];
      if (amounts[i] <= limit) continue;
      const std::string text = Named(least, holder.address, i, limit);
      if (limit == 0) return By(least, absl::PermissionDeniedError(text));
      return By(least, absl::InvalidArgumentError(
                           absl::StrCat(text, ", and this takes ", amounts[i], Option(least, i))));
    }
    return absl::OkStatus();
  }

  absl::Status CheckWith(const LedgerAccount& account, const Holder& holder, const Amounts& limits,
                         const Amounts& amounts) const {
    const std::size_t party = account.party;
    // The hold that is to be has entered it.
    if (rules.first_is_free && party != kAll && account.holds == 1) return absl::OkStatus();
    for (std::size_t i = 0; i < kMostQuantities; ++i) {
      const std::uint64_t held = account.amounts[i];
      const std::uint64_t limit = limits[i];
      // A request that takes nothing of it is not refused for it, though a new limit may be below
      // what is held.
      if (amounts[i] == 0 || (held <= limit && amounts[i] <= limit - held)) continue;
      absl::Status full = absl::ResourceExhaustedError(
          absl::StrCat(Named(party, holder.address, i, limit), ", ", held,
                       " are taken, and this takes ", amounts[i], Option(party, i)));
      if (rules.waits_for[i].has_value()) full = WithRetryAfter(full, *rules.waits_for[i]);
      return By(party, std::move(full));
    }
    return absl::OkStatus();
  }

  absl::Status CheckDebt(const LedgerAccount& account, double device_share) const {
    const TimeNs owed = account.paid_at - Now();
    if (device_share <= 0 || owed <= Ledger::kBurst) return absl::OkStatus();
    return By(account.party,
              WithRetryAfter(
                  absl::ResourceExhaustedError(absl::StrCat(
                      "the tenant's ", rules.limit, " of device_ms_per_second is ",
                      device_share * 1e3, ", and at that rate what it took is paid for in ",
                      owed / kMillisecond, " ms; the limit is ", Ledger::kBurst / kMillisecond)),
                  WaitsFor::kRequests, (owed - Ledger::kBurst + kMillisecond - 1) / kMillisecond));
  }

  // The accounts of the party that hold most of the quantity, the largest first.
  std::vector<const LedgerAccount*> Largest(std::size_t party, std::size_t quantity,
                                            std::size_t most) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::vector<const LedgerAccount*> largest;
    for (const auto& [name, account] : named[party]) {
      if (account.amounts[quantity] != 0) largest.push_back(&account);
    }
    most = std::min(most, largest.size());
    std::partial_sort(largest.begin(), largest.begin() + static_cast<std::ptrdiff_t>(most),
                      largest.end(), [quantity](const auto* x, const auto* y) {
                        const std::uint64_t of_x = x->amounts[quantity];
                        const std::uint64_t of_y = y->amounts[quantity];
                        return of_x != of_y ? of_x > of_y : x->name < y->name;
                      });
    largest.resize(most);
    return largest;
  }

  const LedgerRules rules;
  const Clock* const clock;
  mutable AdaptiveMutex mutex;
  LimitTable limits ABSL_GUARDED_BY(mutex);
  std::array<absl::node_hash_map<std::string, LedgerAccount>, kAll> named ABSL_GUARDED_BY(mutex);
  LedgerAccount all ABSL_GUARDED_BY(mutex);
  // Accounts that hold nothing, by the time at which they have paid.
  std::set<std::pair<TimeNs, LedgerAccount*>> idle ABSL_GUARDED_BY(mutex);
  std::function<void()> on_release ABSL_GUARDED_BY(mutex);
};

std::optional<Party> RefusedBy(const absl::Status& status) {
  const absl::optional<absl::Cord> name = status.GetPayload(kPartyUrl);
  if (!name.has_value()) return std::nullopt;
  const auto found = std::find(kPartyNames.begin(), kPartyNames.end(), std::string(*name));
  return static_cast<Party>(found - kPartyNames.begin());
}

Hold& Hold::operator=(Hold&& other) noexcept {
  if (this == &other) return *this;
  Release();
  state_ = std::move(other.state_);
  accounts_ = other.accounts_;
  amounts_ = std::exchange(other.amounts_, {});
  device_share_ = other.device_share_;
  owed_ = other.owed_;
  return *this;
}

void Hold::Release() {
  if (state_ == nullptr) return;
  const std::shared_ptr<LedgerState> state = std::move(state_);
  const MutexLock lock(state->mutex);
  for (LedgerAccount* const account : accounts_) {
    if (account == nullptr) continue;
    for (std::size_t i = 0; i < kMostQuantities; ++i) account->amounts[i] -= amounts_[i];
    if (account == accounts_.front()) account->paid_at -= std::exchange(owed_, 0);
    state->Leave(account);
  }
  amounts_ = {};
  if (state->on_release) state->on_release();
}

Hold Hold::Split(const Amounts& amounts) {
  Hold part;
  if (state_ == nullptr) return part;
  part.state_ = state_;
  part.accounts_ = accounts_;
  part.amounts_ = amounts;
  for (std::size_t i = 0; i < kMostQuantities; ++i) amounts_[i] -= amounts[i];
  const MutexLock lock(state_->mutex);
  for (LedgerAccount* const account : accounts_) {
    if (account != nullptr) ++account->holds;
  }
  return part;
}

void Hold::OweDeviceTime(double us) {
  if (state_ == nullptr || device_share_ == 0) return;
  const TimeNs owed = TimeToPay(us, device_share_);
  const MutexLock lock(state_->mutex);
  LedgerAccount* const tenant = accounts_.front();
  // Debt that is already paid is not given back as credit.
  tenant->paid_at = std::max(tenant->paid_at, state_->Now());
  tenant->paid_at += owed - owed_;
  owed_ = owed;
}

void Hold::SettleDeviceTime(double us) {
  OweDeviceTime(us);
  owed_ = 0;
}

Ledger::Ledger(const LedgerRules& rules, const LimitTable& limits, const Clock* clock,
               std::function<void()> on_release)
    : state_(std::make_shared<LedgerState>(rules, clock)) {
  const MutexLock lock(state_->mutex);
  state_->limits = limits;
  state_->on_release = std::move(on_release);
}

Ledger::~Ledger() {
  const MutexLock lock(state_->mutex);
  state_->on_release = nullptr;
}

absl::StatusOr<Hold> Ledger::Take(const Holder& holder, const Amounts& amounts,
                                  const Terms* terms) {
  LedgerState& state = *state_;
  const MutexLock lock(state.mutex);
  LimitTable limits = state.limits;
  if (terms != nullptr) limits[static_cast<std::size_t>(Party::kTenant)] = terms->limits;
  absl::Status status;
  if (state.rules.refuses_for_good) status = state.CheckAlone(holder, limits, amounts);
  if (!status.ok()) return status;
  const std::array<LedgerAccount*, kParties> accounts = {
      state.Enter(Party::kTenant, holder.tenant), state.Enter(Party::kAddress, holder.address),
      &state.all};
  ++state.all.holds;
  for (std::size_t party = 0; party < kParties && status.ok(); ++party) {
    if (accounts[party] == nullptr) continue;
    status = state.CheckWith(*accounts[party], holder, limits[party], amounts);
  }
  if (status.ok() && terms != nullptr) {
    status = state.CheckDebt(*accounts.front(), terms->device_share);
  }
  if (!status.ok()) {
    for (LedgerAccount* const account : accounts) state.Leave(account);
    return status;
  }
  for (LedgerAccount* const account : accounts) {
    if (account == nullptr) continue;
    for (std::size_t i = 0; i < kMostQuantities; ++i) account->amounts[i] += amounts[i];
  }
  if (terms != nullptr) accounts.front()->own_limits = terms->limits;
  Hold hold;
  hold.state_ = state_;
  hold.accounts_ = accounts;
  hold.amounts_ = amounts;
  if (terms != nullptr) hold.device_share_ = terms->device_share;
  return hold;
}

void Ledger::SetLimits(const LimitTable& limits) {
  const MutexLock lock(state_->mutex);
  state_->limits = limits;
}

LimitTable Ledger::limits() const {
  const MutexLock lock(state_->mutex);
  return state_->limits;
}

Ledger::Use Ledger::UseOf(Party party, const std::string& name) const {
  const MutexLock lock(state_->mutex);
  const auto& accounts = state_->named[static_cast<std::size_t>(party)];
  const auto found = accounts.find(name);
  if (found == accounts.end()) return {};
  return {found->second.amounts, std::max<TimeNs>(0, found->second.paid_at - state_->Now())};
}

Amounts Ledger::held() const {
  const MutexLock lock(state_->mutex);
  return state_->all.amounts;
}

std::size_t Ledger::holders() const {
  const MutexLock lock(state_->mutex);
  return state_->named[0].size() + state_->named[1].size();
}

std::vector<Holding> Ledger::Read(std::size_t most) const {
  std::vector<Holding> holdings;
  const MutexLock lock(state_->mutex);
  for (std::size_t i = 0; i < kMostQuantities; ++i) {
    const std::string quantity(state_->rules.quantities[i].name);
    if (quantity.empty()) continue;
    holdings.push_back(
        {"", quantity, Party::kAll, "", state_->all.amounts[i], state_->limits[kAll][i]});
    for (std::size_t party = 0; party < kAll; ++party) {
      for (const LedgerAccount* const account : state_->Largest(party, i, most)) {
        const Amounts& limits = account->own_limits.value_or(state_->limits[party]);
        holdings.push_back({"", quantity, static_cast<Party>(party), account->name,
                            account->amounts[i], limits[i]});
      }
    }
  }
  return holdings;
}

}  // namespace gemmd
