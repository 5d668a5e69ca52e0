#include "client/load/report/html_parts.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/load/report/svg.h"

namespace gemmd::load {
namespace {

// Where a search ended, as a line across the charts whose x axis is a rate.
std::vector<VerticalLine> Found(const Json& report) {
  const Json search = Member(report, "search", Json::object());
  const Json best = Member(search, "best_per_s", nullptr);
  if (!best.is_number()) return {};
  const std::string what = search.value("for", "");
  return {{best.get<double>(), what == "knee" ? "knee" : what + " holds"}};
}

// The number that a sweep varies.
double Varied(const Json& point) {
  return point["load"].value("concurrency", point["load"].value("rate_per_s", 0.0));
}

struct SweepSeries {
  std::vector<Series> rate;
  std::vector<Series> latency;
  std::vector<Series> tail;
};

// The curves of one server's points.
void AddSeries(const std::string& on, const std::vector<const Json*>& points, SweepSeries& sweep) {
  Series rate{"requests/s" + on, {}};
  Series tail{"p99" + on, {}};
  for (const Json* point : points) {
    const double requests_per_s = (*point)["requests_per_s"].get<double>();
    rate.points.emplace_back(Varied(*point), requests_per_s);
    tail.points.emplace_back(requests_per_s, Us(*point, "p99") / 1e3);
  }
  for (const char* name : {"p50", "p99", "p99.9"}) {
    Series& latency = sweep.latency.emplace_back(Series{name + on, {}});
    for (const Json* point : points) {
      latency.points.emplace_back(Varied(*point), Us(*point, name) / 1e3);
    }
  }
  sweep.rate.push_back(std::move(rate));
  sweep.tail.push_back(std::move(tail));
}

}  // namespace

Json Member(const Json& object, const char* name, const Json& fallback) {
  return object.contains(name) ? object[name] : fallback;
}

std::string Row(const char* cell, const std::vector<std::string>& cells) {
  std::string row = "<tr>";
  for (const std::string& text : cells)
    absl::StrAppend(&row, "<", cell, ">", Escape(text), "</", cell, ">");
  return row + "</tr>\n";
}

double Us(const Json& point, const char* name) { return point["latency_us"][name].get<double>(); }

bool IsOpen(const Json& point) { return point["load"].value("loop", "") == "open"; }

std::string Wide(const std::string& rows) {
  return absl::StrCat("<div class=\"wide\"><table>\n", rows, "</table></div>\n");
}

std::string SweepHtml(const Json& report) {
  std::map<std::string, std::vector<const Json*>> servers;
  for (const Json& point : report["points"]) servers[point.value("server", "")].push_back(&point);
  if (servers.empty() || servers.begin()->second.size() < 2) return "";
  SweepSeries sweep;
  for (const auto& [server, points] : servers) {
    AddSeries(server.empty() ? "" : " on " + server, points, sweep);
  }
  const bool is_open = IsOpen(report["points"][0]);
  const Axis x{is_open ? "requests/s asked" : "requests in flight", true, true};
  const std::vector<VerticalLine> found = Found(report);
  return "<h2>Sweep</h2>\n<div class=\"charts\">\n" +
         LineChart("Throughput", x, {"requests/s", false}, sweep.rate, found) +
         LineChart("Latency", x, {"ms", true}, sweep.latency, found) +
         LineChart("Tail against throughput", {"requests/s", false}, {"p99 ms", true}, sweep.tail,
                   found) +
         "</div>\n";
}

std::string ComparisonsHtml(const Json& report) {
  const Json comparisons = Member(report, "comparisons", Json::array());
  std::string html;
  for (const Json& comparison : comparisons) {
    std::string rows =
        Row("th", {"load", "figure", "before", "after", "change", "95 % interval", ""});
    for (const Json& change : comparison["changes"]) {
      rows += Row("td",
                  {change.value("load", ""), change.value("figure", ""),
                   absl::StrFormat("%.4g", change.value("before", 0.0)),
                   absl::StrFormat("%.4g", change.value("after", 0.0)), change.value("change", ""),
                   change.value("interval_text", ""), change.value("verdict", "")});
    }
    absl::StrAppend(&html, "<h2>", Escape(comparison.value("after", "")), " against ",
                    Escape(comparison.value("before", "")), "</h2>\n", Wide(rows));
  }
  return html;
}

}  // namespace gemmd::load
