#include "client/cli/bench/bench_verdict.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/bench/bench_target.h"

namespace gemmd::cli {
namespace {

// The reasons for which a measurement fails, and the code of the gravest.
class Reasons {
 public:
  void Add(ExitCode code, std::string why) {
    // The largest code is the gravest of the two: latencies of a run that failed mean little.
    if (texts_.empty() || code > code_) {
      code_ = code;
      texts_.insert(texts_.begin(), std::move(why));
    } else {
      texts_.push_back(std::move(why));
    }
  }

  // Nothing where there was no reason.
  Outcome End(const std::string& what, load::Json& document) const {
    if (texts_.empty()) return std::nullopt;
    document["failed"] = texts_;
    const std::string more =
        texts_.size() == 1 ? "" : absl::StrCat("; and ", texts_.size() - 1, " more");
    return Failure{code_, what, texts_[0] + more, std::nullopt};
  }

 private:
  ExitCode code_ = ExitCode::kOk;
  std::vector<std::string> texts_;
};

ExitCode CodeOf(const load::Condition& condition) {
  return condition.figure->kind == load::FigureKind::kShare ? ExitCode::kTooManyFailed
                                                            : ExitCode::kObjectiveMissed;
}

// A script must not take wrong products, or nothing, for a measurement.
Outcome WhyNoMeasurement(const GlobalOptions& global, const load::Json& report) {
  std::uint64_t ok = 0;
  std::string code;
  for (const load::Json& point : report["points"]) {
    ok += point["ok"].get<std::uint64_t>();
    if (code.empty() && !point["errors"].empty()) code = point["errors"].begin().key();
    if (point.value("wrong", 0) > 0) {
      return Failure{
          ExitCode::kInternal, global.server,
          absl::StrCat(point["wrong"].dump(), " of ", point["verified"].dump(),
                       " verified products are wrong: ", point["first_wrong"].get<std::string>()),
          std::nullopt};
    }
  }
  if (ok > 0 || code.empty()) return std::nullopt;
  absl::StatusCode status = absl::StatusCode::kUnknown;
  for (int i = 1; i <= 16; ++i) {
    if (absl::StatusCodeToString(static_cast<absl::StatusCode>(i)) == code) {
      status = static_cast<absl::StatusCode>(i);
    }
  }
  return ServerFailure(global.server,
                       absl::Status(status, "no request was answered with OK (see the report)"));
}

// An interrupted search has not come to its end.
void JudgeSearch(const BenchArguments& arguments, const load::Json& report, Reasons& reasons) {
  if (!report.contains("search") || WasInterrupted()) return;
  const load::Json& search = report["search"];
  const std::string what = search["for"].get<std::string>();
  if (search["best_per_s"].is_null()) {
    return reasons.Add(
        ExitCode::kObjectiveMissed,
        absl::StrCat("no rate holds (", what, "): ", search["why"].get<std::string>()));
  }
  const double best = search["best_per_s"].get<double>();
  if (arguments.rates.empty() || best >= arguments.rates[0]) return;
  reasons.Add(ExitCode::kObjectiveMissed,
              absl::StrFormat("--rate %.6g does not hold (%s), only up to %.1f requests/s",
                              arguments.rates[0], what, best));
}

bool IsJudged(const load::Json& report, const load::Json& point) {
  return !report.contains("search") ||
         point["load"]["rate_per_s"] == report["search"]["best_per_s"];
}

void JudgePoint(const std::vector<load::Condition>& conditions, const load::Json& point,
                Reasons& reasons) {
  const auto add = [&](ExitCode code, const std::string& why) {
    if (!why.empty()) reasons.Add(code, absl::StrCat(load::LoadName(point), ": ", why));
  };
  add(ExitCode::kTooManyFailed, load::WhyTooManyFailed(conditions, point));
  for (const load::Condition& condition : conditions) {
    add(CodeOf(condition), load::WhyFails(condition, point));
  }
}

// Points are in the order of loads, and for each load in that of the servers, --server first.
void JudgeComparisons(const std::vector<load::Condition>& conditions, const load::Json& report,
                      Reasons& reasons) {
  if (!report.contains("comparisons")) return;
  const std::size_t servers = report["servers"].size();
  const load::Json& points = report["points"];
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i % servers == 0) continue;
    for (const load::Change& change :
         load::ComparePoints(points[i - i % servers], points[i], true)) {
      for (const load::Condition& condition : conditions) {
        if (!condition.is_change) continue;
        const std::string why = load::WhyFails(condition, change);
        if (why.empty()) continue;
        reasons.Add(CodeOf(condition), absl::StrCat(load::LoadName(points[i]), ": ", why));
      }
    }
  }
}

}  // namespace

Outcome JudgeBench(const GlobalOptions& global, const BenchArguments& arguments,
                   const std::vector<load::Condition>& conditions, load::Json& report) {
  if (Outcome failure = WhyNoMeasurement(global, report)) {
    report["failed"] = {failure->why};
    return failure;
  }
  Reasons reasons;
  JudgeSearch(arguments, report, reasons);
  for (const load::Json& point : report["points"]) {
    if (IsJudged(report, point)) JudgePoint(conditions, point, reasons);
  }
  JudgeComparisons(conditions, report, reasons);
  return reasons.End(global.server, report);
}

Outcome JudgeDiff(const load::ReportDiff& diff, const std::vector<load::Condition>& conditions,
                  double threshold, load::Json& document) {
  Reasons reasons;
  for (const load::Change& change : diff.changes) {
    const auto add = [&](ExitCode code, const std::string& why) {
      if (!why.empty()) reasons.Add(code, absl::StrCat(change.load, ": ", why));
    };
    if (conditions.empty() && change.worse(threshold)) {
      add(ExitCode::kObjectiveMissed,
          absl::StrCat(change.figure->title, " is worse: ", change.text()));
    }
    for (const load::Condition& condition : conditions) {
      add(CodeOf(condition), load::WhyFails(condition, change));
    }
  }
  for (const load::Condition& condition : conditions) {
    const bool is_compared = std::any_of(
        diff.changes.begin(), diff.changes.end(),
        [&condition](const load::Change& change) { return change.figure == condition.figure; });
    if (is_compared) continue;
    reasons.Add(CodeOf(condition), absl::StrCat("the reports have no ", condition.figure->name,
                                                " for ", condition.text));
  }
  return reasons.End("diff", document);
}

}  // namespace gemmd::cli
