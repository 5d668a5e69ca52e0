#include "client/load/report/conditions.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace gemmd::load {
namespace {

absl::Status Bad(absl::string_view part, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", part, "\" ", why));
}

bool ParsePercent(absl::string_view text, double& value) {
  if (!absl::EndsWith(text, "%")) return false;
  text.remove_suffix(1);
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return false;
  value /= 100;
  return true;
}

// "+10%" or "-5%": to the figure's bad side.
absl::Status ReadChange(absl::string_view part, absl::string_view text, bool allows_changes,
                        Condition& condition) {
  if (!allows_changes) {
    return Bad(part, "is a change: only what compares, as gemm bench diff, can fail on one");
  }
  const char sign = condition.figure->more_is_better() ? '-' : '+';
  if (text[0] != sign || !ParsePercent(text, condition.limit)) {
    return Bad(part, absl::StrFormat("must end in a change for the worse, as %s%c%c10%%",
                                     condition.figure->name,
                                     condition.figure->more_is_better() ? '<' : '>', sign));
  }
  condition.is_change = true;
  return absl::OkStatus();
}

absl::Status ReadValue(absl::string_view part, absl::string_view text, Condition& condition) {
  switch (condition.figure->kind) {
    case FigureKind::kTime: {
      absl::Duration limit;
      if (!absl::ParseDuration(text, &limit) || limit <= absl::ZeroDuration() ||
          limit == absl::InfiniteDuration()) {
        return Bad(part, absl::StrFormat("must end in a positive duration, as %s>5ms",
                                         condition.figure->name));
      }
      condition.limit = absl::ToDoubleMicroseconds(limit);
      return absl::OkStatus();
    }
    case FigureKind::kShare:
      if ((!ParsePercent(text, condition.limit) && !absl::SimpleAtod(text, &condition.limit)) ||
          !(condition.limit >= 0 && condition.limit < 1)) {
        return Bad(part, "must end in a share from 0% to below 100%, as failed>1%");
      }
      return absl::OkStatus();
    case FigureKind::kRate:
      break;
  }
  if (!absl::SimpleAtod(text, &condition.limit) || !std::isfinite(condition.limit) ||
      !(condition.limit > 0)) {
    return Bad(part,
               absl::StrFormat("must end in a number above 0, as %s<100", condition.figure->name));
  }
  return absl::OkStatus();
}

absl::StatusOr<Condition> ParseCondition(absl::string_view part, bool allows_changes) {
  Condition condition;
  condition.text = std::string(part);
  const std::size_t end = part.find_first_of("<>=");
  const absl::string_view name = absl::StripAsciiWhitespace(part.substr(0, end));
  condition.figure = FindFigure(name);
  if (condition.figure == nullptr) {
    return Bad(part, absl::StrCat("names no figure; it must begin with one of ", FigureNames()));
  }
  const char bad_side = condition.figure->more_is_better() ? '<' : '>';
  if (end == absl::string_view::npos || part[end] == '=') {
    return Bad(part, absl::StrFormat("says no limit, as %s%c... does", name, bad_side));
  }
  if (part[end] != bad_side) {
    return Bad(
        part, absl::StrFormat("would fail what is good; a condition says what fails: %s%c...", name,
                              bad_side));
  }
  absl::string_view limit = part.substr(end + 1);
  condition.is_inclusive = absl::ConsumePrefix(&limit, "=");
  limit = absl::StripAsciiWhitespace(limit);
  const bool is_change = absl::StartsWith(limit, "+") || absl::StartsWith(limit, "-");
  const absl::Status read = is_change ? ReadChange(part, limit, allows_changes, condition)
                                      : ReadValue(part, limit, condition);
  if (!read.ok()) return read;
  return condition;
}

std::string Sentence(const Condition& condition, const std::string& value) {
  return absl::StrCat(condition.figure->name, " is ", value, ", and ", condition.text, " fails");
}

}  // namespace

bool Condition::Fails(double value) const {
  if (is_inclusive && value == limit) return true;
  return figure->more_is_better() ? value < limit : value > limit;
}

absl::StatusOr<std::vector<Condition>> ParseConditions(absl::string_view text,
                                                       bool allows_changes) {
  std::vector<Condition> conditions;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    absl::StatusOr<Condition> condition =
        ParseCondition(absl::StripAsciiWhitespace(part), allows_changes);
    if (!condition.ok()) return condition.status();
    conditions.push_back(*std::move(condition));
  }
  return conditions;
}

std::string WhyFails(const Condition& condition, const Json& point) {
  if (condition.is_change) return "";
  const Figure& figure = *condition.figure;
  if (figure.kind == FigureKind::kTime && point["ok"].get<std::uint64_t>() == 0) {
    return absl::StrCat("nothing was answered with OK, so ", condition.text, " fails");
  }
  const std::optional<double> value =
      figure.kind == FigureKind::kShare ? FailedShare(point) : ValueOf(figure, point);
  if (!value) return absl::StrCat("the report has no ", figure.name, " for ", condition.text);
  return condition.Fails(*value) ? Sentence(condition, FigureText(figure, *value)) : "";
}

std::string WhyFails(const Condition& condition, const Change& change) {
  const Figure& figure = *condition.figure;
  if (change.figure != &figure) return "";
  if (!condition.is_change) {
    return condition.Fails(change.after) ? Sentence(condition, FigureText(figure, change.after))
                                         : "";
  }
  if (!condition.Fails(change.size()) || change.is_hidden()) return "";
  return Sentence(condition, change.text() + " by the comparison");
}

double FailedShare(const Json& point) {
  const double share = ValueOf(*FindFigure("failed"), point).value_or(0);
  const Json::json_pointer pointer("/pauses/share");
  return point.contains(pointer) ? std::max(share, point[pointer].get<double>()) : share;
}

std::string WhyTooManyFailed(const std::vector<Condition>& conditions, const Json& point) {
  const Figure& failed = *FindFigure("failed");
  const bool is_named =
      std::any_of(conditions.begin(), conditions.end(), [&failed](const Condition& condition) {
        return condition.figure == &failed && !condition.is_change;
      });
  const double limit = is_named ? kMostFailedEver : kMostFailed;
  const double share = FailedShare(point);
  if (share <= limit) return "";
  const bool is_time = share > ValueOf(failed, point).value_or(0);
  return absl::StrFormat(
      "%.3g%% of the %s, at most %g%% may%s", share * 100,
      is_time ? "time passed without a server that answers" : "requests failed", limit * 100,
      is_named ? ", whatever is allowed" : " (--fail-on 'failed>SHARE' changes that)");
}

}  // namespace gemmd::load
