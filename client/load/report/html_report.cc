#include "client/load/report/html_report.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/load/report/html_parts.h"
#include "client/load/report/svg.h"

namespace gemmd::load {
namespace {

constexpr char kHead[] = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>gemm bench</title>
<style>
:root { --ink: #1b1f24; --paper: #ffffff; --faint: #d8dee4; --soft: #57606a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --paper: #0d1117; --faint: #30363d; --soft: #8b949e; }
}
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 1340px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin: 2em 0 .4em; }
.charts { display: grid; gap: 1em;
          grid-template-columns: repeat(auto-fill, minmax(min(520px, 100%), 1fr)); }
.wide { overflow-x: auto; } .wide td:first-child { white-space: nowrap; }
svg { width: 100%; border: 1px solid var(--faint); border-radius: 6px; }
svg text { font-size: 12px; fill: var(--soft); }
svg text.title { font-size: 13px; fill: var(--ink); }
.grid { stroke: var(--faint); } .across { stroke: var(--soft); stroke-dasharray: 5 4; }
 polyline { fill: none; stroke-width: 1.6; }
table { border-collapse: collapse; margin: .6em 0; }
th, td { text-align: right; padding: .2em .8em; border-bottom: 1px solid var(--faint); }
th:first-child, td:first-child, .facts td { text-align: left; }
.warning { border-left: 4px solid #d55e00; padding: .2em .8em; margin: .3em 0; }
code { overflow-wrap: anywhere; } .soft { color: var(--soft); }
)";

// Okabe and Ito's, which colour-blind readers can tell apart, and five more.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                    "#56b4e9", "#b2a429", "#8c564b", "#7f7f7f", "#9467bd",
                                    "#17806d", "#f0e442", "#7fc97f"};
// A stage without a colour would be black, on black where the page is dark.
static_assert(std::size(kColours) >= kStages);

std::string Styles() {
  std::string styles;
  for (std::size_t i = 0; i < std::size(kColours); ++i) {
    absl::StrAppendFormat(&styles, ".s%d { stroke: %s; } .s%d.fill { fill: %s; stroke: none; }\n",
                          i, kColours[i], i, kColours[i]);
  }
  return styles;
}

std::string Ms(double us) { return absl::StrFormat("%.3f", us / 1e3); }

// The rate that was asked for; nothing of a closed loop or a replay.
std::string Asked(const Json& point) {
  const double rate = point["load"].value("rate_per_s", 0.0);
  return rate > 0 ? absl::StrFormat("%.6g", rate) : "";
}

std::string Table(const Json& report) {
  const bool has_open = std::any_of(report["points"].begin(), report["points"].end(), IsOpen);
  std::vector<std::string> titles = {"load",   "requests/s", "GB/s",     "TFLOP/s", "p50 ms",
                                     "p90 ms", "p99 ms",     "p99.9 ms", "max ms",  "not OK"};
  const std::vector<std::string> open_titles = {"asked/s", "due/s"};
  if (has_open) titles.insert(titles.begin() + 1, open_titles.begin(), open_titles.end());
  std::string rows = Row("th", titles);
  for (const Json& point : report["points"]) {
    const auto failed = point["requests"].get<std::uint64_t>() - point["ok"].get<std::uint64_t>();
    std::vector<std::string> cells = {
        LoadName(point),
        absl::StrFormat("%.1f", point["requests_per_s"].get<double>()),
        absl::StrFormat("%.3f", point["gb_per_s"].get<double>()),
        absl::StrFormat("%.3f", point["tflops"].get<double>()),
        Ms(Us(point, "p50")),
        Ms(Us(point, "p90")),
        Ms(Us(point, "p99")),
        Ms(Us(point, "p99.9")),
        Ms(Us(point, "max")),
        absl::StrCat(failed)};
    if (has_open) {
      const std::vector<std::string> open = {
          Asked(point),
          IsOpen(point) ? absl::StrFormat("%.1f", point["offered_per_s"].get<double>()) : ""};
      cells.insert(cells.begin() + 1, open.begin(), open.end());
    }
    rows += Row("td", cells);
  }
  return Wide(rows) +
         (has_open
              ? "<p class=\"soft\">due/s is what the seeded draw made of the rate that was asked "
                "for, so the two differ by chance. requests/s, which were answered with OK, are "
                "to be compared with due/s.</p>\n"
              : "");
}

std::string StageChart(const Json& report) {
  std::vector<std::string> names;
  std::vector<Stack> stacks;
  for (const Json& point : report["points"]) {
    if (!point.contains("stage_mean_us")) continue;
    Stack stack{LoadName(point), {}};
    double sum = 0;
    for (const auto& [name, us] : point["stage_mean_us"].items()) {
      if (stacks.empty()) names.push_back(name);
      stack.parts.push_back(us.get<double>() / 1e3);
      sum += stack.parts.back();
    }
    if (sum > 0) stacks.push_back(stack);
  }
  if (stacks.empty()) return "";
  return "<h2>Stages</h2>\n<p class=\"soft\">Means of what each stage alone accounts for, from "
         "the receipts. The client's queue is the wait for a place among the calls that the server "
         "takes on one connection.</p>\n<div class=\"charts\">\n" +
         StackChart("Where the time goes", "ms", names, stacks) + "</div>\n";
}

std::string Distribution(const Json& point) {
  if (!point.contains("histogram_us") || !point.contains("quantiles_us")) return "";
  std::vector<std::pair<std::string, double>> bars;
  for (const Json& bucket : point["histogram_us"]) {
    bars.emplace_back(absl::StrFormat("%.3g", bucket[0].get<double>() / 1e3),
                      bucket[1].get<double>());
  }
  Series quantiles{"latency", {}};
  for (const Json& quantile : point["quantiles_us"]) {
    const double rest = 100 - quantile[0].get<double>();
    if (rest > 0) quantiles.points.emplace_back(100 / rest, quantile[1].get<double>() / 1e3);
  }
  return BarChart("Latency distribution", {"ms at most", false}, {"requests", false}, bars) +
         LineChart("Percentiles", {"one request in ... is slower", true}, {"ms", true},
                   {quantiles});
}

std::string Course(const Json& point) {
  if (!point.contains("timeline")) return "";
  Series rate{"requests/s", {}};
  Series errors{"errors/s", {}};
  std::vector<Series> latencies;
  for (const char* name : {"p50", "p90", "p99", "p99.9"}) latencies.push_back({name, {}});
  for (const Json& slice : point["timeline"]) {
    const double at = slice["begin_s"].get<double>();
    rate.points.emplace_back(at, slice["requests_per_s"].get<double>());
    errors.points.emplace_back(at, slice["errors_per_s"].get<double>());
    for (Series& latency : latencies) {  // older reports have fewer of them
      latency.points.emplace_back(at, slice.value(latency.name + "_us", 0.0) / 1e3);
    }
  }
  return LineChart("Throughput over time", {"seconds, warm-up included", false},
                   {"per second", false}, {rate, errors}) +
         LineChart("Latency over time", {"seconds, warm-up included", false}, {"ms", true},
                   latencies);
}

std::string Batches(const Json& point) {
  if (!point.contains("batch_requests") || point["batch_requests"].size() < 2) return "";
  std::vector<std::pair<std::string, double>> bars;
  for (const auto& [size, count] : point["batch_requests"].items()) {
    bars.emplace_back(size, count.get<double>());
  }
  return BarChart("Batch sizes", {"requests in a launch", false}, {"requests", false}, bars);
}

std::string Point(const Json& point) {
  std::string html = absl::StrCat("<h2>", Escape(LoadName(point)), "</h2>\n");
  const Json warnings = Member(point, "warnings", Json::array());
  const Json errors = Member(point, "errors", Json::object());
  const Json messages = Member(point, "first_errors", Json::object());
  for (const Json& warning : warnings) {
    absl::StrAppend(&html, "<p class=\"warning\">", Escape(warning.get<std::string>()), "</p>\n");
  }
  for (const auto& [code, count] : errors.items()) {
    absl::StrAppend(&html, "<p>", count.dump(), " ", Escape(code), ": ",
                    Escape(messages.value(code, "")), "</p>\n");
  }
  return absl::StrCat(html, "<div class=\"charts\">\n", Distribution(point), Course(point),
                      Batches(point), "</div>\n");
}

// Why the command did not end with 0.
std::string Failures(const Json& report) {
  std::string html;
  const Json failures = Member(report, "failed", Json::array());
  for (const Json& why : failures) {
    absl::StrAppend(&html, "<p class=\"warning\">failed: ", Escape(why.get<std::string>()),
                    "</p>\n");
  }
  return html;
}

std::string Facts(const Json& report) {
  std::string html;
  const auto fact = [&html](const std::string& name, const std::string& value) {
    if (!value.empty()) {
      absl::StrAppend(&html, "<tr><td>", Escape(name), "</td><td><code>", Escape(value),
                      "</code></td></tr>\n");
    }
  };
  fact("time", report.value("time", ""));
  fact("command", report.value("command", ""));
  const auto join = [&report](const char* name) {
    std::vector<std::string> parts;
    const Json members = Member(report, name, Json::object());
    for (const auto& [key, value] : members.items()) {
      const std::string text = value.is_string() ? value.get<std::string>()
                               : value.is_number_float()
                                   ? absl::StrFormat("%.5g", value.get<double>())
                                   : value.dump();
      parts.push_back(absl::StrCat(key, " ", text));
    }
    return absl::StrJoin(parts, ", ");
  };
  fact("client's machine", join("machine"));
  fact("server", join("server"));
  fact("options", join("options"));
  fact("ceiling", join("ceiling"));
  fact("blas", join("blas"));
  fact("search", join("search"));
  return "<div class=\"wide\"><table class=\"facts\">\n" + html + "</table></div>\n";
}

}  // namespace

std::string HtmlReport(const Json& report) {
  std::string html =
      absl::StrCat(kHead, Styles(), "</style>\n</head>\n<body>\n<h1>gemm bench</h1>\n",
                   Facts(report), Failures(report), Table(report), ComparisonsHtml(report),
                   SweepHtml(report), StageChart(report));
  for (const Json& point : report["points"]) html += Point(point);
  return html + "</body>\n</html>\n";
}

}  // namespace gemmd::load
