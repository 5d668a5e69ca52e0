// Conditions under which a measurement fails a job: "failed>1%,p99>5ms" of one, and
// "p99>+10%,throughput<-5%" of two that are compared.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/load/report/diff.h"
#include "client/load/report/report.h"
#include "client/load/results/figures.h"

namespace gemmd::load {

struct Condition {
  std::string text;  // as it was given
  const Figure* figure = nullptr;
  bool is_inclusive = false;  // >= or <=: the limit itself fails too
  bool is_change = false;     // of a comparison; else of a value
  // In the figure's own unit; the limit of a change is relative, or a difference of two shares.
  double limit = 0;

  // Beyond the limit to the bad side: above, or below where more is better.
  bool Fails(double value) const;
};

// INVALID_ARGUMENT quotes the part that is wrong and says what is allowed. A condition that would
// fail what is good (p99<5ms) is refused, and so are changes where nothing is compared.
absl::StatusOr<std::vector<Condition>> ParseConditions(absl::string_view text, bool allows_changes);

// Empty where the point passes; else a sentence with value and limit. Changes are not looked at. No
// latency passes where nothing was answered.
std::string WhyFails(const Condition& condition, const Json& point);

// Empty where the comparison passes; else a sentence with value and limit. A condition on a value
// looks at AFTER. A change that its interval does not show to be one passes.
std::string WhyFails(const Condition& condition, const Change& change);

// The share of requests that may fail before a run fails, unless conditions name another one.
inline constexpr double kMostFailed = 0.1;
// The largest share that a condition can allow: beyond it a run has measured something else.
inline constexpr double kMostFailedEver = 0.5;

// Returns the share of requests that failed or, if larger, the share of time that a closed loop
// paused. While nobody answers it asks seldom, so that few of its requests fail.
double FailedShare(const Json& point);

// Empty, or a sentence where too many of the point's requests failed: more than kMostFailed or,
// with a condition on `failed`, kMostFailedEver.
std::string WhyTooManyFailed(const std::vector<Condition>& conditions, const Json& point);

}  // namespace gemmd::load
