#include "client/cli/bench/bench_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/views/table.h"

namespace gemmd::cli {
namespace {

using load::Json;

std::string Number(int decimals, const Json& value) {
  return absl::StrFormat("%.*f", decimals, value.get<double>());
}

std::string Ms(const Json& latency, const char* name) {
  return absl::StrFormat("%.3f", latency[name].get<double>() / 1e3);
}

std::string Points(const Json& report) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"load", Table::Align::kLeft},
               {"requests/s", kRight},
               {"GB/s", kRight},
               {"GFLOP/s", kRight},
               {"p50 ms", kRight},
               {"p90 ms", kRight},
               {"p99 ms", kRight},
               {"p99.9 ms", kRight},
               {"max ms", kRight},
               {"requests", kRight},
               {"not OK", kRight}});
  for (const Json& point : report["points"]) {
    const Json& latency = point["latency_us"];
    const auto requests = point["requests"].get<std::uint64_t>();
    table.AddRow(
        {load::LoadName(point), Number(1, point["requests_per_s"]), Number(3, point["gb_per_s"]),
         absl::StrFormat("%.1f", point["tflops"].get<double>() * 1e3), Ms(latency, "p50"),
         Ms(latency, "p90"), Ms(latency, "p99"), Ms(latency, "p99.9"), Ms(latency, "max"),
         absl::StrCat(requests), absl::StrCat(requests - point["ok"].get<std::uint64_t>())});
  }
  return table.Render();
}

// A column a point; stages that took no time are left out.
std::string Stages(const Json& report) {
  std::vector<Table::Column> columns = {{"mean us", Table::Align::kLeft}};
  for (const Json& point : report["points"]) {
    columns.push_back({load::LoadName(point), Table::Align::kRight});
  }
  Table table(columns);
  bool any = false;
  for (const auto& [name, unused] : report["points"][0]["stage_mean_us"].items()) {
    std::vector<std::string> cells = {name};
    double sum = 0;
    for (const Json& point : report["points"]) {
      sum += point["stage_mean_us"][name].get<double>();
      cells.push_back(Number(1, point["stage_mean_us"][name]));
    }
    if (sum > 0) table.AddRow(std::move(cells));
    any = any || sum > 0;
  }
  return any ? absl::StrCat("\n", table.Render()) : "";
}

std::string Batches(const Json& point) {
  std::vector<std::string> sizes;
  for (const auto& [size, count] : point["batch_requests"].items()) {
    sizes.push_back(absl::StrCat(size, ": ", count.dump()));
  }
  if (sizes.empty() || (sizes.size() == 1 && point["batch_requests"].contains("1"))) return "";
  return absl::StrCat("requests in a launch, by answer: ", absl::StrJoin(sizes, ", "), "\n");
}

// A Poisson schedule is drawn, so that what is due differs from the rate by chance.
std::string Drawn(const Json& point) {
  if (point["load"].value("arrivals", "") != "poisson") return "";
  return absl::StrCat("due by the seeded draw: ", Number(1, point["offered_per_s"]),
                      "/s; answered with OK: ", Number(1, point["requests_per_s"]), "/s\n");
}

std::string Notes(const Json& point) {
  std::string notes = Drawn(point) + Batches(point);
  for (const auto& [code, count] : point["errors"].items()) {
    const bool told = point.contains("first_errors") && point["first_errors"].contains(code);
    absl::StrAppend(&notes, count.dump(), " ", code,
                    told ? ": " + point["first_errors"][code].get<std::string>() : "", "\n");
  }
  if (point.contains("verified")) {
    absl::StrAppend(&notes, point["verified"].dump(), " products verified, ", point["wrong"].dump(),
                    " wrong\n");
  }
  if (point.contains("cpu")) {
    const auto percent = [&point](const char* share) {
      return absl::StrFormat("%.0f%%", point["cpu"][share].get<double>() * 100);
    };
    absl::StrAppend(&notes, "the client used ", percent("client_share"), " of ",
                    point["cpu"]["cores"].dump(), " cores");
    if (point["cpu"].contains("machine_share")) {
      absl::StrAppend(&notes, "; this machine was ", percent("machine_share"), " busy");
    }
    notes += "\n";
  }
  for (const Json& warning : point["warnings"]) {
    absl::StrAppend(&notes, "warning: ", warning.get<std::string>(), "\n");
  }
  if (notes.empty()) return "";
  return absl::StrCat("\n", load::LoadName(point), "\n", notes);
}

std::string Ceiling(const Json& report) {
  if (!report.contains("ceiling")) return "";
  const Json& ceiling = report["ceiling"];
  return absl::StrCat("\nceiling: a bare echo of the same bytes, concurrency ",
                      ceiling["concurrency"].dump(), " over ", ceiling["channels"].dump(),
                      " channels: ", Number(1, ceiling["requests_per_s"]), " requests/s, ",
                      Number(3, ceiling["gb_per_s"]), " GB/s; ", ceiling["of"].get<std::string>(),
                      " is ", Number(3, ceiling["ratio"]), " of it\n");
}

std::string Blas(const Json& report) {
  if (!report.contains("blas")) return "";
  const Json& blas = report["blas"];
  return absl::StrCat("\nblas: ", blas["library"].get<std::string>(), " in ",
                      blas["type"].get<std::string>(), ": ", Number(1, blas["gflops"]),
                      " GFLOP/s; the server's compute stage: ", Number(1, blas["server_gflops"]),
                      " GFLOP/s, ", Number(3, blas["ratio"]), " of it\n");
}

std::string Search(const Json& report) {
  if (!report.contains("search")) return "";
  const Json& search = report["search"];
  const std::string what = search["for"].get<std::string>();
  if (search["best_per_s"].is_null()) {
    return absl::StrCat("\n", what, ": no rate held\n");
  }
  std::string text =
      absl::StrCat("\n", what, ": holds at ", Number(1, search["best_per_s"]), " requests/s");
  if (!search["broken_per_s"].is_null()) {
    absl::StrAppend(&text, ", not at ", Number(1, search["broken_per_s"]), ": ",
                    search["why"].get<std::string>());
  }
  return text + "\n";
}

std::string Changes(const Json& changes, const std::string& before, const std::string& after) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"load", Table::Align::kLeft},
               {"figure", Table::Align::kLeft},
               {before, kRight},
               {after, kRight},
               {"change", kRight},
               {"95 % interval", Table::Align::kLeft},
               {"", Table::Align::kLeft}});
  const auto number = [](const Json& value) {
    return absl::StrFormat("%.4g", value.get<double>());
  };
  for (const Json& change : changes) {
    const auto text = [&change](const char* name) { return change[name].get<std::string>(); };
    table.AddRow({text("load"), text("figure"), number(change["before"]), number(change["after"]),
                  text("change"), text("interval_text"), text("verdict")});
  }
  return table.Render();
}

std::string Comparisons(const Json& report) {
  std::string text;
  if (!report.contains("comparisons")) return text;
  for (const Json& comparison : report["comparisons"]) {
    absl::StrAppend(&text, "\n",
                    Changes(comparison["changes"], comparison["before"].get<std::string>(),
                            comparison["after"].get<std::string>()));
  }
  return text;
}

std::string Failed(const Json& report) {
  std::string text;
  if (!report.contains("failed")) return text;
  for (const Json& why : report["failed"]) {
    absl::StrAppend(&text, "failed: ", why.get<std::string>(), "\n");
  }
  return text.empty() ? text : absl::StrCat("\n", text);
}

}  // namespace

std::string BenchTable(const Json& report) {
  std::string text = Points(report) + Stages(report);
  for (const Json& point : report["points"]) text += Notes(point);
  return text + Ceiling(report) + Blas(report) + Search(report) + Comparisons(report) +
         Failed(report);
}

std::string DiffTable(const load::ReportDiff& diff, double threshold) {
  std::string text = Changes(load::ChangesJson(diff.changes, threshold), "before", "after");
  const bool has_intervals =
      std::any_of(diff.changes.begin(), diff.changes.end(),
                  [](const load::Change& change) { return change.interval.has_value(); });
  if (!has_intervals) {
    text += "no intervals: a report is of an older gemm, or too short to have any\n";
  }
  for (const std::string& load : diff.only_before)
    absl::StrAppend(&text, "only before: ", load, "\n");
  for (const std::string& load : diff.only_after)
    absl::StrAppend(&text, "only after: ", load, "\n");
  for (const std::string& warning : diff.warnings) {
    absl::StrAppend(&text, "warning: ", warning, "\n");
  }
  return text;
}

}  // namespace gemmd::cli
