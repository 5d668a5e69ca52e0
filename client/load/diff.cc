#include "client/load/diff.h"

#include <algorithm>

namespace gemmd::load {
namespace {

double ErrorShare(const Json& point) {
  const double requests = point["requests"].get<double>();
  return requests > 0 ? 1 - point["ok"].get<double>() / requests : 0;
}

const Json* Find(const Json& report, const std::string& load) {
  for (const Json& point : report["points"]) {
    if (LoadName(point) == load) return &point;
  }
  return nullptr;
}

void Compare(const Json& before, const Json& after, std::vector<Change>& changes) {
  const std::string load = LoadName(before);
  const auto add = [&](const char* figure, bool more_is_better, double a, double b) {
    changes.push_back({load, figure, a, b, more_is_better});
  };
  for (const auto& [figure, name] :
       {std::pair("requests/s", "requests_per_s"), std::pair("GB/s", "gb_per_s"),
        std::pair("TFLOP/s", "tflops")}) {
    add(figure, true, before[name].get<double>(), after[name].get<double>());
  }
  for (const auto& [figure, name] :
       {std::pair("mean ms", "mean"), std::pair("p50 ms", "p50"), std::pair("p90 ms", "p90"),
        std::pair("p99 ms", "p99"), std::pair("p99.9 ms", "p99.9"), std::pair("max ms", "max")}) {
    add(figure, false, before["latency_us"][name].get<double>() / 1e3,
        after["latency_us"][name].get<double>() / 1e3);
  }
  add("not OK %", false, ErrorShare(before) * 100, ErrorShare(after) * 100);
}

}  // namespace

double Change::relative() const {
  if (before == 0) return after == 0 ? 0 : 1;
  return after / before - 1;
}

bool Change::worse(double threshold) const {
  return more_is_better ? relative() < -threshold : relative() > threshold;
}

bool Change::better(double threshold) const {
  return more_is_better ? relative() > threshold : relative() < -threshold;
}

ReportDiff DiffReports(const Json& before, const Json& after) {
  ReportDiff diff;
  for (const Json& point : before["points"]) {
    const Json* other = Find(after, LoadName(point));
    if (other == nullptr) {
      diff.only_before.push_back(LoadName(point));
    } else {
      Compare(point, *other, diff.changes);
    }
  }
  for (const Json& point : after["points"]) {
    if (Find(before, LoadName(point)) == nullptr) diff.only_after.push_back(LoadName(point));
  }
  return diff;
}

}  // namespace gemmd::load
