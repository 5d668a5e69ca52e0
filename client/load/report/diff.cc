#include "client/load/report/diff.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gemmd::load {
namespace {

constexpr double kConfidence = 0.95;

double Relative(double before, double after) {
  if (before == 0) return after == 0 ? 0 : 1;
  return after / before - 1;
}

double Size(const Figure& figure, double before, double after) {
  return figure.kind == FigureKind::kShare ? after - before : Relative(before, after);
}

std::string SizeText(const Figure& figure, double size) {
  return figure.kind == FigureKind::kShare ? absl::StrFormat("%+.2f points", size * 100)
                                           : absl::StrFormat("%+.1f%%", size * 100);
}

// Null where the report has none of this figure.
const Json* ResamplesOf(const Figure& figure, const Json& point) {
  const Json::json_pointer pointer("/resamples/figures");
  if (!point.contains(pointer)) return nullptr;
  const auto found = point[pointer].find(std::string(figure.name));
  return found != point[pointer].end() && !found->empty() ? &*found : nullptr;
}

// Independent runs may have drawn the same numbers of blocks: a resample of the one is then
// compared with a later one of the other.
std::optional<Interval> IntervalOf(const Figure& figure, const Json& before, const Json& after,
                                   bool paired) {
  const Json* const old = ResamplesOf(figure, before);
  const Json* const young = ResamplesOf(figure, after);
  if (old == nullptr || young == nullptr || old->size() != young->size()) return std::nullopt;
  const std::size_t count = old->size();
  const std::size_t shift = paired ? 0 : count / 2;
  std::vector<double> sizes;
  sizes.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    sizes.push_back(
        Size(figure, (*old)[i].get<double>(), (*young)[(i + shift) % count].get<double>()));
  }
  std::sort(sizes.begin(), sizes.end());
  const auto tail =
      static_cast<std::size_t>(std::floor((1 - kConfidence) / 2 * static_cast<double>(count)));
  return Interval{sizes[tail], sizes[count - 1 - tail]};
}

const Json* Find(const Json& report, const std::string& load) {
  for (const Json& point : report["points"]) {
    if (LoadName(point) == load) return &point;
  }
  return nullptr;
}

void AddWarnings(const char* which, const Json& report, std::vector<std::string>& warnings) {
  for (const Json& point : report["points"]) {
    if (!point.contains("warnings")) continue;
    for (const Json& warning : point["warnings"]) {
      warnings.push_back(
          absl::StrCat(which, ", ", LoadName(point), ": ", warning.get<std::string>()));
    }
  }
}

}  // namespace

double Change::relative() const { return Relative(before, after); }

double Change::size() const { return Size(*figure, before, after); }

std::string Change::text() const { return SizeText(*figure, size()); }

bool Change::is_hidden() const { return interval && interval->low <= 0 && interval->high >= 0; }

bool Change::worse(double threshold) const {
  if (figure->is_one_request() || is_hidden()) return false;
  return figure->more_is_better() ? relative() < -threshold : relative() > threshold;
}

bool Change::better(double threshold) const {
  if (figure->is_one_request() || is_hidden()) return false;
  return figure->more_is_better() ? relative() > threshold : relative() < -threshold;
}

std::string Change::verdict(double threshold) const {
  if (worse(threshold)) return "worse";
  if (better(threshold)) return "better";
  return is_hidden() && before != after ? "no difference shown" : "";
}

std::string IntervalText(const Change& change) {
  if (!change.interval) return "";
  return absl::StrCat(SizeText(*change.figure, change.interval->low), " to ",
                      SizeText(*change.figure, change.interval->high));
}

std::vector<Change> ComparePoints(const Json& before, const Json& after, bool paired) {
  std::vector<Change> changes;
  for (const Figure& figure : Figures()) {
    const std::optional<double> old = ValueOf(figure, before);
    const std::optional<double> young = ValueOf(figure, after);
    if (!old || !young) continue;  // of a report of an older version
    changes.push_back(
        {LoadName(before), &figure, *old, *young, IntervalOf(figure, before, after, paired)});
  }
  return changes;
}

Json ChangesJson(const std::vector<Change>& changes, double threshold) {
  Json list = Json::array();
  for (const Change& change : changes) {
    const double scale = change.figure->scale();
    Json interval = nullptr;
    if (change.interval) interval = {change.interval->low, change.interval->high};
    list.push_back({{"load", change.load},
                    {"figure", change.figure->title},
                    {"before", change.before * scale},
                    {"after", change.after * scale},
                    {"relative", change.relative()},
                    {"interval", std::move(interval)},
                    {"worse", change.worse(threshold)},
                    {"better", change.better(threshold)},
                    {"change", change.text()},
                    {"interval_text", IntervalText(change)},
                    {"verdict", change.verdict(threshold)}});
  }
  return list;
}

ReportDiff DiffReports(const Json& before, const Json& after) {
  ReportDiff diff;
  for (const Json& point : before["points"]) {
    const Json* other = Find(after, LoadName(point));
    if (other == nullptr) {
      diff.only_before.push_back(LoadName(point));
      continue;
    }
    for (Change& change : ComparePoints(point, *other, false)) {
      diff.changes.push_back(std::move(change));
    }
  }
  for (const Json& point : after["points"]) {
    if (Find(before, LoadName(point)) == nullptr) diff.only_after.push_back(LoadName(point));
  }
  AddWarnings("before", before, diff.warnings);
  AddWarnings("after", after, diff.warnings);
  return diff;
}

}  // namespace gemmd::load
