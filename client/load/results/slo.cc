#include "client/load/results/slo.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace gemmd::load {
namespace {

std::optional<double> Find(const Latency& latency, absl::string_view name) {
  if (name == "mean") return latency.mean_us;
  if (name == "p50") return latency.p50_us;
  if (name == "p90") return latency.p90_us;
  if (name == "p95") return latency.p95_us;
  if (name == "p99") return latency.p99_us;
  if (name == "p99.9") return latency.p999_us;
  if (name == "max") return latency.max_us;
  return std::nullopt;
}

absl::Status BadSlo(absl::string_view part, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", part, "\" ", why));
}

// "0.1%" or "0.001".
bool ParseShare(absl::string_view text, double& share) {
  const bool percent = absl::EndsWith(text, "%");
  if (percent) text.remove_suffix(1);
  if (!absl::SimpleAtod(text, &share)) return false;
  if (percent) share /= 100;
  return share >= 0 && share < 1;
}

}  // namespace

absl::StatusOr<Slo> ParseSlo(absl::string_view text) {
  Slo slo;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> sides =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (sides.first == "errors") {
      if (!ParseShare(sides.second, slo.error_share)) {
        return BadSlo(part, "must be a share from 0% to below 100%, as errors=0.1%");
      }
      continue;
    }
    if (!Find(Latency(), sides.first)) {
      return BadSlo(part, "must begin with mean, p50, p90, p95, p99, p99.9, max or errors and =");
    }
    absl::Duration limit;
    if (!absl::ParseDuration(sides.second, &limit) || limit <= absl::ZeroDuration()) {
      return BadSlo(part, "must end in a positive duration, as p99=5ms");
    }
    slo.limits.push_back({std::string(sides.first), absl::ToDoubleMicroseconds(limit)});
  }
  if (slo.limits.empty()) return BadSlo(text, "names no latency, as p99=5ms does");
  return slo;
}

std::string WhyMissed(const Slo& slo, const Summary& summary) {
  if (summary.requests == 0) return "no request was due in the measured time";
  const double failed = static_cast<double>(summary.requests - summary.ok);
  const double share = failed / static_cast<double>(summary.requests);
  if (share > slo.error_share) {
    return absl::StrFormat("%.3g%% not answered with OK, at most %.3g%% allowed", share * 100,
                           slo.error_share * 100);
  }
  for (const Slo::Limit& limit : slo.limits) {
    const double value_us = Find(summary.latency, limit.name).value();
    if (value_us > limit.limit_us) {
      return absl::StrFormat("%s is %.3f ms, at most %.3f ms allowed", limit.name, value_us / 1e3,
                             limit.limit_us / 1e3);
    }
  }
  return "";
}

std::string WhyPastKnee(const Summary& summary, double calm_p99_us) {
  constexpr double kAnswered = 0.98;
  constexpr double kSlower = 10;
  if (summary.ok == 0) return "nothing was answered with OK";
  const double share = summary.requests_per_s / summary.offered_per_s;
  if (share < kAnswered) {
    return absl::StrFormat("%.1f%% of the rate was answered, at least 98%% is needed", share * 100);
  }
  if (calm_p99_us > 0 && summary.latency.p99_us > kSlower * calm_p99_us) {
    return absl::StrFormat("p99 is %.3f ms, above ten times the %.3f ms of the first rate",
                           summary.latency.p99_us / 1e3, calm_p99_us / 1e3);
  }
  return "";
}

std::optional<double> RateSearch::Next() const {
  if (trials_left_ == 0) return std::nullopt;
  if (holds_ && fails_ && *fails_ <= *holds_ * (1 + precision_)) return std::nullopt;
  return next_;
}

void RateSearch::Report(bool held) {
  --trials_left_;
  (held ? holds_ : fails_) = next_;
  if (holds_ && fails_) {
    next_ = std::sqrt(*holds_ * *fails_);
  } else {
    next_ *= held ? 2 : 0.5;
  }
}

}  // namespace gemmd::load
