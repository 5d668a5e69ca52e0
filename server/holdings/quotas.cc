#include "server/holdings/quotas.h"

#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/cord.h"
#include "server/observe/refusal.h"

namespace gemmd {
namespace {

constexpr char kRefusalUrl[] = "gemmd/quota";

WaitsFor HolderOf(Quantity quantity) {
  const bool is_of_request = quantity == Quantity::kRequests || quantity == Quantity::kRequestBytes;
  return is_of_request ? WaitsFor::kRequests : WaitsFor::kLeases;
}

// By Quantity.
constexpr std::array<absl::string_view, kQuantities> kNames = {
    "quota_requests", "quota_request_bytes", "quota_resident_bytes", "quota_regions",
    "quota_connections"};

LedgerRules Rules() {
  LedgerRules rules;
  for (const Quantity quantity : kAllQuantities) {
    const auto i = static_cast<std::size_t>(quantity);
    rules.quantities[i] = {kNames[i], Name(quantity)};
    rules.waits_for[i] = HolderOf(quantity);
  }
  rules.limit = "quota";
  rules.refuses_for_good = true;
  return rules;
}

}  // namespace

Amounts AmountOf(Quantity quantity, std::uint64_t amount) {
  Amounts amounts{};
  amounts[static_cast<std::size_t>(quantity)] = amount;
  return amounts;
}

bool IsQuotaRefusal(const absl::Status& status) {
  return status.GetPayload(kRefusalUrl).has_value();
}

Quotas::Quotas(const Clock* clock, OnRefusal on_refusal)
    : ledger_(Rules(), kNoLimits, clock), on_refusal_(std::move(on_refusal)) {}

absl::StatusOr<Hold> Quotas::Take(const Tenant& tenant, const Amounts& amounts) {
  if (tenant.quota() == nullptr) return Hold();
  const Quota& quota = *tenant.quota();
  Ledger::Terms terms;
  for (const Quantity quantity : kAllQuantities) {
    terms.limits[static_cast<std::size_t>(quantity)] = quota.limit(quantity).value_or(kUnlimited);
  }
  const bool is_request = amounts[static_cast<std::size_t>(Quantity::kRequests)] != 0;
  if (is_request) terms.device_share = quota.device_share.value_or(0);
  absl::StatusOr<Hold> hold = ledger_.Take({quota.account, std::nullopt}, amounts, &terms);
  if (hold.ok()) return hold;
  absl::Status status = WithCause(hold.status(), RefusalCause::kQuota);
  status.SetPayload(kRefusalUrl, absl::Cord());
  return status;
}

void Quotas::Report(const Tenant& tenant, const absl::Status& status) const {
  if (on_refusal_ && IsQuotaRefusal(status)) on_refusal_(tenant, status);
}

Ledger::Use Quotas::UseOf(const Tenant& tenant) const {
  if (tenant.quota() == nullptr) return {};
  return ledger_.UseOf(Party::kTenant, tenant.quota()->account);
}

}  // namespace gemmd
