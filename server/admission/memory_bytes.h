// The kinds of memory that requests take, as a ledger counts them.
#pragma once

#include <cstdint>
#include <string>

#include "server/admission/percent.h"
#include "server/holdings/ledger.h"

namespace gemmd {

// Bytes of each kind, as Device::host_memory_limits() tells them apart.
struct MemoryBytes {
  std::uint64_t device = 0;
  std::uint64_t small = 0;     // of the host, page-locked
  std::uint64_t large = 0;     // of the host, page-locked
  std::uint64_t ordinary = 0;  // of the host

  std::uint64_t total() const { return device + small + large + ordinary; }
  Amounts amounts() const { return {device, small, large, ordinary}; }
  static MemoryBytes Of(const Amounts& amounts) {
    return {amounts[0], amounts[1], amounts[2], amounts[3]};
  }
};

// The client whose request holds memory.
struct MemoryHolder {
  std::string tenant;
  std::string peer;
};

inline LedgerRules MemoryRules() {
  LedgerRules rules;
  rules.quantities[0] = {"device_bytes", "bytes of device memory"};
  rules.quantities[1] = {"small_pinned_bytes", "bytes of page-locked memory for small planes"};
  rules.quantities[2] = {"pinned_bytes", "bytes of page-locked memory"};
  rules.quantities[3] = {"host_bytes", "bytes of host memory"};
  rules.waits_for.fill(WaitsFor::kRequests);
  rules.limit = "share";
  rules.option = "scheduling.tenant_percent";
  rules.first_is_free = true;
  return rules;
}

// A tenant and an address may each have `percent` of each kind. A tenant's name is only a claim, so
// the address from which it came is limited too.
inline LimitTable MemoryShares(const MemoryBytes& limits, int percent) {
  const MemoryBytes share = {PercentOf(limits.device, percent), PercentOf(limits.small, percent),
                             PercentOf(limits.large, percent), PercentOf(limits.ordinary, percent)};
  return {share.amounts(), share.amounts(), Unlimited()};
}

}  // namespace gemmd
