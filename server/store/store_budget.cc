#include "server/store/store_budget.h"

#include <cstddef>
#include <optional>

#include "absl/status/status.h"

namespace gemmd {
namespace {

constexpr std::size_t kOperands = 0;
constexpr std::size_t kBytes = 1;

Amounts AmountsOf(const StoreShare& share) {
  Amounts amounts{};
  amounts[kOperands] = share.operands;
  amounts[kBytes] = share.bytes;
  return amounts;
}

LedgerRules Rules() {
  LedgerRules rules;
  rules.quantities[kOperands] = {"operands", "operands and names"};
  rules.quantities[kBytes] = {"operand_bytes", "bytes of operands"};
  rules.limit = "share";
  rules.waits_for = {WaitsFor::kLeases, WaitsFor::kLeases};
  rules.refuses_for_good = true;
  return rules;
}

LimitTable TableOf(const StoreBudget::Limits& limits) {
  return {AmountsOf(limits.tenant), AmountsOf(limits.address), AmountsOf(limits.all)};
}

}  // namespace

void StoreHold::ShrinkTo(std::uint64_t bytes) {
  const std::uint64_t less = place_.amounts()[kBytes] - bytes;
  place_.Shrink(AmountsOf({0, less}));
  quota_.Shrink(AmountOf(Quantity::kResidentBytes, less));
}

StoreBudget::StoreBudget(const Limits& limits, std::set<std::string> proxies, Quotas* quotas)
    : proxies_(std::move(proxies)), quotas_(quotas), ledger_(Rules(), TableOf(limits)) {}

void StoreBudget::SetLimits(const Limits& limits) { ledger_.SetLimits(TableOf(limits)); }

absl::StatusOr<StoreHold> StoreBudget::Reserve(const Tenant& tenant, std::uint64_t bytes) {
  Holder holder{tenant.key(), std::nullopt};
  if (const std::string& address = AddressOf(tenant); !address.empty()) holder.address = address;
  absl::StatusOr<Hold> place = ledger_.Take(holder, AmountsOf({1, bytes}));
  if (!place.ok() && !absl::IsResourceExhausted(place.status())) return place.status();
  Hold quota;
  // The quota's refusal goes first: others' operands would make no room for it.
  if (quotas_ != nullptr) {
    absl::StatusOr<Hold> taken = quotas_->Take(tenant, AmountOf(Quantity::kResidentBytes, bytes));
    if (!taken.ok()) return taken.status();
    quota = *std::move(taken);
  }
  if (!place.ok()) return place.status();
  return StoreHold(*std::move(place), std::move(quota));
}

const std::string& StoreBudget::AddressOf(const Tenant& tenant) const {
  static const auto* const none = new std::string;
  const bool is_counted = !tenant.is_proven() && proxies_.count(tenant.address()) == 0;
  return is_counted ? tenant.address() : *none;
}

std::uint64_t StoreBudget::limit_bytes() const {
  return ledger_.limits()[static_cast<std::size_t>(Party::kAll)][kBytes];
}

std::uint64_t StoreBudget::used_bytes() const { return ledger_.held()[kBytes]; }

}  // namespace gemmd
