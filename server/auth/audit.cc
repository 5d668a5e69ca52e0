#include "server/auth/audit.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text/quoted.h"
#include "server/observe/log.h"

namespace gemmd {
namespace {

// The limit for each kind of line: a hundred at once, and ten a second.
constexpr TimeNs kInterval = 100'000'000;
constexpr TimeNs kBurst = 100;

// Returns the text as it is, unless it has to be cut or escaped.
std::string Name(absl::string_view text) {
  std::string quoted = Quoted(text);
  return quoted.size() == text.size() + 2 ? std::string(text) : quoted;
}

}  // namespace

std::optional<std::uint64_t> AuditLog::Take(Kind* kind) {
  const TimeNs now = clock_->Now();
  const TimeNs paid = std::max(kind->paid_until, now - kBurst * kInterval) + kInterval;
  if (paid > now) {
    ++kind->left_out;
    return std::nullopt;
  }
  kind->paid_until = paid;
  return std::exchange(kind->left_out, 0);
}

void AuditLog::Refused(const Call& call, const absl::Status& why) {
  std::optional<std::uint64_t> left_out;
  {
    const MutexLock lock(mutex_);
    left_out = Take(&refused_);
  }
  if (!left_out.has_value()) return;
  Log(Severity::kWarning, "call_refused",
      {{"method", call.method},
       {"peer", call.peer},
       {"who", Name(call.who)},
       {"tenant", Name(call.tenant)},
       {"code", absl::StatusCodeToString(why.code())},
       {"error", why.message()},
       {"left_out", *left_out}});
}

void AuditLog::OverQuota(const Tenant& tenant, const absl::Status& why) {
  std::optional<std::uint64_t> left_out;
  {
    const MutexLock lock(mutex_);
    left_out = Take(&over_quota_);
  }
  if (!left_out.has_value()) return;
  static const CallOrigin* const kUnknown = new CallOrigin;
  const CallOrigin& origin = tenant.origin() != nullptr ? *tenant.origin() : *kUnknown;
  Log(Severity::kWarning, "quota_refused",
      {{"method", origin.method},
       {"peer", origin.peer},
       {"tenant", Name(tenant.key())},
       {"code", absl::StatusCodeToString(why.code())},
       {"error", why.message()},
       {"left_out", *left_out}});
}

void AuditLog::Served(const Call& call) {
  std::optional<std::uint64_t> left_out;
  {
    const MutexLock lock(mutex_);
    left_out = Take(&served_);
  }
  if (!left_out.has_value()) return;
  Log(Severity::kInfo, "call_audited",
      {{"method", call.method},
       {"peer", call.peer},
       {"who", Name(call.who)},
       {"tenant", Name(call.tenant)},
       {"left_out", *left_out}});
}

}  // namespace gemmd
