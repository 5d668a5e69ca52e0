// A Ledger counts what clients hold, by tenant, by address and of all together, and refuses what
// would go beyond a limit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/time/clock.h"
#include "server/tenants/retry_after.h"

namespace gemmd {

// The owner of a ledger numbers its quantities from 0 on.
inline constexpr std::size_t kMostQuantities = 5;
using Amounts = std::array<std::uint64_t, kMostQuantities>;

// A limit of as much as can be counted.
inline constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
constexpr Amounts Unlimited() {
  Amounts limits{};
  for (std::uint64_t& limit : limits) limit = kUnlimited;
  return limits;
}

// Those whose use a limit bounds.
enum class Party : std::uint8_t { kTenant, kAddress, kAll };
inline constexpr std::size_t kParties = 3;

// Indexed by Party.
using LimitTable = std::array<Amounts, kParties>;
inline constexpr LimitTable kNoLimits = {Unlimited(), Unlimited(), Unlimited()};

// The client that holds something. Absent: it counts for no tenant, or for no address.
struct Holder {
  std::optional<std::string> tenant;
  std::optional<std::string> address;
};

struct LedgerQuantity {
  absl::string_view name;         // "operand_bytes", which ends so for bytes; unique in a server
  absl::string_view words;        // for refusals: "bytes of operands"
  absl::string_view option = {};  // sets the limit of all; empty: there are several, or none
};

// The form and the rules of a ledger's refusals.
struct LedgerRules {
  std::array<LedgerQuantity, kMostQuantities> quantities;
  // Names a limit of a tenant or an address: "share".
  absl::string_view limit;
  // Names the option that sets these limits; empty: there are several, or none.
  absl::string_view option;
  // Says for whom a refused client has to wait; absent: nobody says when there is room again.
  std::array<std::optional<WaitsFor>, kMostQuantities> waits_for;
  // Lets a tenant or an address that holds nothing take anything: a request that is larger than a
  // share would never be let in otherwise.
  bool first_is_free = false;
  // Refuses for good what is more than a limit by itself.
  bool refuses_for_good = false;
};

// Returns the party whose limit is in the way; absent: the status is no refusal by a ledger.
std::optional<Party> RefusedBy(const absl::Status& status);

// The amount that a party holds of a quantity.
struct Holding {
  std::string device;  // that it is of; empty: of none
  std::string quantity;
  Party party = Party::kAll;
  std::string name;  // of the tenant or the address
  std::uint64_t held = 0;
  std::uint64_t limit = kUnlimited;
};

struct LedgerAccount;
struct LedgerState;

// Amounts that are held until it is destroyed. Movable; may outlive the ledger, because gRPC may
// still send a result then.
class Hold {
 public:
  Hold() = default;
  Hold(Hold&& other) noexcept { *this = std::move(other); }
  Hold& operator=(Hold&& other) noexcept;
  ~Hold() { Release(); }

  void Release();
  // Moves some of its amounts to a hold of their own, without device time. REQUIRES: it has them.
  Hold Split(const Amounts& amounts);
  // Gives some of its amounts back. REQUIRES: it has them.
  void Shrink(const Amounts& amounts) { Split(amounts); }
  const Amounts& amounts() const { return amounts_; }

  // From now on the tenant owes `us` for this hold, instead of what it owed before, and nothing
  // if it is released like that. Negative times and those that are no number count as 0.
  void OweDeviceTime(double us);
  // Charges the tenant `us` for this hold for good, instead of what it owed: the device has
  // worked that long.
  void SettleDeviceTime(double us);

 private:
  friend class Ledger;

  std::shared_ptr<LedgerState> state_;               // null: it holds nothing
  std::array<LedgerAccount*, kParties> accounts_{};  // null: counts in none
  Amounts amounts_{};
  double device_share_ = 0;  // of the tenant when it was taken; 0: not limited
  TimeNs owed_ = 0;          // that paying for this hold takes, if it is not settled
};

// Thread-safe. Sums are exact, and never wrap. A party that holds nothing and owes no time is
// forgotten.
//
// Device time is paid at the rate of a tenant's share: who owes no more than kBurst may begin a
// request, however long. It owes what the request is predicted to take, and from its end on what
// it took.
class Ledger {
 public:
  static constexpr TimeNs kBurst = 1000000000;

  // The terms of one tenant, instead of the table's.
  struct Terms {
    Amounts limits = Unlimited();
    // Seconds of device time in one second; 0: not limited.
    double device_share = 0;
  };

  // `clock`: for device time; null: nobody owes any. `on_release` is called when a hold ends, on
  // any thread, as long as the ledger lives; it must neither block nor call anything of this.
  Ledger(const LedgerRules& rules, const LimitTable& limits, const Clock* clock = nullptr,
         std::function<void()> on_release = nullptr);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // A refusal names quantity, use and limit, and carries RefusedBy(). A quantity that is full
  // refuses only those who take some of it. `terms`: REQUIRES a tenant.
  //   RESOURCE_EXHAUSTED  more than a limit with what is held, or too much device time is owed;
  //                       carries RetryAfterMs() where the rules say for whom to wait
  // and from a ledger that refuses for good
  //   PERMISSION_DENIED   the limit is 0
  //   INVALID_ARGUMENT    more than the limit at once
  absl::StatusOr<Hold> Take(const Holder& holder, const Amounts& amounts,
                            const Terms* terms = nullptr);

  // Other limits from here on. Holds stay, even where these allow less.
  void SetLimits(const LimitTable& limits);
  LimitTable limits() const;

  // The present use of a party.
  struct Use {
    Amounts amounts{};
    TimeNs owed = 0;  // until all device time is paid
  };
  Use UseOf(Party party, const std::string& name) const;
  // The sum of all holds.
  Amounts held() const;
  // Tenants and addresses that hold or owe something, or did when it was last looked.
  std::size_t holders() const;
  // For each quantity the sum over all, then the tenants that hold most of it, then the addresses:
  // at most `most` of each, the largest first, and none that holds nothing.
  std::vector<Holding> Read(std::size_t most) const;

 private:
  const std::shared_ptr<LedgerState> state_;
};

}  // namespace gemmd
