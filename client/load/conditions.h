// Conditions under which a measurement fails a job: "failed>1%,p99>5ms" of one, and
// "p99>+10%,throughput<-5%" of two that are compared.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/load/diff.h"
#include "client/load/figures.h"
#include "client/load/report.h"

namespace gemmd::load {

struct Condition {
  std::string text;  // as it was given
  const Figure* figure = nullptr;
  bool is_inclusive = false;  // >= or <=: the limit itself fails too
  bool is_change = false;     // of a comparison; else of a value
  // In the figure's own unit. Of a change: relative, or the difference of two shares.
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

// Likewise for a comparison, whose values are those of AFTER. A change that its interval does not
// show to be one passes.
std::string WhyFails(const Condition& condition, const Change& change);

// The share of requests that may fail before a run fails, unless conditions name another one.
inline constexpr double kMostFailed = 0.1;
// However large a share a condition allows: such a run has measured something else.
inline constexpr double kMostFailedEver = 0.5;

// A closed loop asks seldom while nobody answers, so that few of its requests fail: where the time
// of these pauses is the larger share of all, it stands for that of the requests.
double FailedShare(const Json& point);

// Empty, or the sentence for a point of which too many requests failed: more than kMostFailedEver
// or, without a condition on `failed`, kMostFailed.
std::string WhyTooManyFailed(const std::vector<Condition>& conditions, const Json& point);

}  // namespace gemmd::load
