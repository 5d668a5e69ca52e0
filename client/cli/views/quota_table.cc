#include "client/cli/views/quota_table.h"

#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/views/message_format.h"

namespace gemmd::cli {

void AddQuota(const v1::TenantQuota& quota, Table* facts) {
  const auto add = [facts](const std::string& what) { facts->AddRow({"quota", what}); };
  for (const v1::QuotaUse& use : quota.uses()) {
    const bool is_bytes = absl::EndsWith(use.quota(), "_bytes");
    const auto amount = [is_bytes](std::uint64_t value) {
      return is_bytes ? HumanBytes(value) : absl::StrCat(value);
    };
    add(absl::StrCat(use.quota(), ": ", amount(use.used()), " of ",
                     use.has_limit() ? amount(use.limit()) : "any number"));
  }
  if (quota.has_device_ms_per_second()) {
    add(absl::StrFormat("device_ms_per_second: %g, paid for in %.0f ms",
                        quota.device_ms_per_second(), quota.owed_ms()));
  }
  if (quota.has_high_priority()) {
    add(absl::StrCat("high_priority: ", quota.high_priority() ? "yes" : "no"));
  }
  if (quota.has_weight()) add(absl::StrFormat("weight: %g", quota.weight()));
}

}  // namespace gemmd::cli
