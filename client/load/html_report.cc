#include "client/load/html_report.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/load/svg.h"

namespace gemmd::load {
namespace {

// Colours: Okabe and Ito's, which colour-blind readers can tell apart, and four more.
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
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(560px, 1fr)); gap: 1em; }
svg { width: 100%; border: 1px solid var(--faint); border-radius: 6px; }
svg text { font-size: 11px; fill: var(--soft); }
svg text.title { font-size: 13px; fill: var(--ink); }
.grid { stroke: var(--faint); } polyline { fill: none; stroke-width: 1.6; }
table { border-collapse: collapse; margin: .6em 0; }
th, td { text-align: right; padding: .2em .8em; border-bottom: 1px solid var(--faint); }
th:first-child, td:first-child, .facts td { text-align: left; }
.warning { border-left: 4px solid #d55e00; padding: .2em .8em; margin: .3em 0; }
code { overflow-wrap: anywhere; } .soft { color: var(--soft); }
)";

constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#b2a429", "#8c564b",
                                    "#7f7f7f", "#9467bd", "#17806d"};

std::string Styles() {
  std::string styles;
  for (std::size_t i = 0; i < std::size(kColours); ++i) {
    absl::StrAppendFormat(&styles, ".s%d { stroke: %s; } .s%d.fill { fill: %s; stroke: none; }\n",
                          i, kColours[i], i, kColours[i]);
  }
  return styles;
}

// A member that need not be there, by value: what a loop runs over must outlive it.
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

std::string Ms(double us) { return absl::StrFormat("%.3f", us / 1e3); }

std::string Table(const Json& report) {
  std::string table = "<table>\n" + Row("th", {"load", "requests/s", "GB/s", "TFLOP/s", "p50 ms",
                                               "p90 ms", "p99 ms", "p99.9 ms", "max ms", "not OK"});
  for (const Json& point : report["points"]) {
    const auto failed = point["requests"].get<std::uint64_t>() - point["ok"].get<std::uint64_t>();
    table +=
        Row("td", {LoadName(point), absl::StrFormat("%.1f", point["requests_per_s"].get<double>()),
                   absl::StrFormat("%.3f", point["gb_per_s"].get<double>()),
                   absl::StrFormat("%.3f", point["tflops"].get<double>()), Ms(Us(point, "p50")),
                   Ms(Us(point, "p90")), Ms(Us(point, "p99")), Ms(Us(point, "p99.9")),
                   Ms(Us(point, "max")), absl::StrCat(failed)});
  }
  return table + "</table>\n";
}

// The number that a sweep varies.
double Varied(const Json& point) {
  return point["load"].value("concurrency", point["load"].value("rate_per_s", 0.0));
}

std::string Sweep(const Json& report) {
  if (report["points"].size() < 2) return "";
  const bool closed = report["points"][0]["load"].value("loop", "") == "closed";
  const Axis x{closed ? "requests in flight" : "requests/s due", true, true};
  Series rate{"requests/s", {}};
  Series p50{"p50", {}};
  Series p99{"p99", {}};
  Series p999{"p99.9", {}};
  Series tail{"p99", {}};
  for (const Json& point : report["points"]) {
    const double at = Varied(point);
    rate.points.emplace_back(at, point["requests_per_s"].get<double>());
    p50.points.emplace_back(at, Us(point, "p50") / 1e3);
    p99.points.emplace_back(at, Us(point, "p99") / 1e3);
    p999.points.emplace_back(at, Us(point, "p99.9") / 1e3);
    tail.points.emplace_back(point["requests_per_s"].get<double>(), Us(point, "p99") / 1e3);
  }
  return "<h2>Sweep</h2>\n<div class=\"charts\">\n" +
         LineChart("Throughput", x, {"requests/s", false}, {rate}) +
         LineChart("Latency", x, {"ms", true}, {p50, p99, p999}) +
         LineChart("Tail against throughput", {"requests/s", false}, {"p99 ms", true}, {tail}) +
         "</div>\n";
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
         "the receipts.</p>\n<div class=\"charts\">\n" +
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
  Series p50{"p50", {}};
  Series p99{"p99", {}};
  for (const Json& slice : point["timeline"]) {
    const double at = slice["begin_s"].get<double>();
    rate.points.emplace_back(at, slice["requests_per_s"].get<double>());
    errors.points.emplace_back(at, slice["errors_per_s"].get<double>());
    p50.points.emplace_back(at, slice["p50_us"].get<double>() / 1e3);
    p99.points.emplace_back(at, slice["p99_us"].get<double>() / 1e3);
  }
  return LineChart("Throughput over time", {"seconds, warm-up included", false},
                   {"per second", false}, {rate, errors}) +
         LineChart("Latency over time", {"seconds, warm-up included", false}, {"ms", true},
                   {p50, p99});
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
  fact("search", join("search"));
  return "<table class=\"facts\">\n" + html + "</table>\n";
}

}  // namespace

std::string HtmlReport(const Json& report) {
  std::string html =
      absl::StrCat(kHead, Styles(), "</style>\n</head>\n<body>\n<h1>gemm bench</h1>\n",
                   Facts(report), Table(report), Sweep(report), StageChart(report));
  for (const Json& point : report["points"]) html += Point(point);
  return html + "</body>\n</html>\n";
}

}  // namespace gemmd::load
