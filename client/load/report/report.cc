#include "client/load/report/report.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/time/units.h"

namespace gemmd::load {
namespace {

constexpr int kSlices = 60;

Json LatencyJson(const Latency& latency) {
  return {{"mean", latency.mean_us},  {"min", latency.min_us}, {"p50", latency.p50_us},
          {"p90", latency.p90_us},    {"p95", latency.p95_us}, {"p99", latency.p99_us},
          {"p99.9", latency.p999_us}, {"max", latency.max_us}};
}

Json LoadJson(const LoadOptions& options) {
  if (!options.arrivals) return {{"loop", "closed"}, {"concurrency", options.concurrency}};
  switch (options.arrivals->kind) {
    case ArrivalKind::kConstant:
      return {
          {"loop", "open"}, {"arrivals", "constant"}, {"rate_per_s", options.arrivals->rate_per_s}};
    case ArrivalKind::kPoisson:
      return {
          {"loop", "open"}, {"arrivals", "poisson"}, {"rate_per_s", options.arrivals->rate_per_s}};
    case ArrivalKind::kReplay:
      break;
  }
  return {
      {"loop", "open"}, {"arrivals", "replay"}, {"requests", options.arrivals->replay_ns.size()}};
}

Json Object() { return Json::object(); }
Json List() { return Json::array(); }

Json DistributionJson(const Summary& summary, Json point) {
  Json& quantiles = point["quantiles_us"] = List();
  for (const auto& [percent, us] : summary.quantiles) quantiles.push_back({percent, us});
  Json& histogram = point["histogram_us"] = List();
  for (const Bucket& bucket : summary.histogram) {
    histogram.push_back({bucket.upper_us, bucket.count});
  }
  return point;
}

// Five digits, because there are thousands of them.
Json ResamplesJson(const Resamples& resamples) {
  Json figures = Object();
  for (const auto& [name, values] : resamples.figures) {
    Json& list = figures[name] = List();
    for (const double value : values) list.push_back(std::stod(absl::StrFormat("%.5g", value)));
  }
  return {{"blocks", resamples.blocks}, {"figures", std::move(figures)}};
}

std::string WhyNoResamples(const Json& point) {
  if (!point.contains("resamples")) return "";
  for (const auto& [name, values] : point["resamples"].at("figures").items()) {
    for (const Json& value : values) {
      if (!value.is_number())
        return absl::StrCat("has resamples of ", name, " that are no numbers");
    }
  }
  return "";
}

// Throws Json::exception where a member has another type than a report's.
std::string WhyNoReport(const Json& report) {
  if (!report.is_object() || report.value("format", "") != kReportFormat) {
    return "is no report of gemm bench";
  }
  if (report.value("format_version", 0) != kReportVersion) {
    return absl::StrCat("is a report of another version than ", kReportVersion);
  }
  if (!report.contains("points") || !report["points"].is_array()) return "has no points";
  for (const Json& point : report["points"]) {
    for (const char* number :
         {"/requests", "/ok", "/not_sent", "/requests_per_s", "/offered_per_s", "/gb_per_s",
          "/tflops", "/latency_us/mean", "/latency_us/p50", "/latency_us/p90", "/latency_us/p99",
          "/latency_us/p99.9", "/latency_us/max"}) {
      const Json::json_pointer pointer(number);
      if (!point.contains(pointer) || !point[pointer].is_number()) {
        return absl::StrCat("has a point without ", number);
      }
    }
    if (LoadName(point).empty()) return "has a point without a load";
    const std::string why = WhyNoResamples(point);
    if (!why.empty()) return why;
  }
  return "";
}

}  // namespace

Json PointJson(const LoadOptions& options, const LoadRun& run, const Summary& summary,
               const Findings& findings, const std::vector<std::string>& entry_names,
               const Resamples& resamples) {
  Json point = {{"load", LoadJson(options)},
                {"seconds", summary.seconds},
                {"requests", summary.requests},
                {"ok", summary.ok},
                {"not_sent", summary.not_sent},
                {"errors", Object()},
                {"offered_per_s", summary.offered_per_s},
                {"requests_per_s", summary.requests_per_s},
                {"gb_per_s", summary.gb_per_s},
                {"tflops", summary.tflops},
                {"latency_us", LatencyJson(summary.latency)},
                {"service_us", LatencyJson(summary.service)},
                {"late_p99_us", summary.late_p99_us},
                {"stage_mean_us", Object()},
                {"batch_requests", Object()},
                {"entries", Object()}};
  for (const auto& [code, count] : summary.errors) point["errors"][code] = count;
  for (const auto& [code, message] : findings.first_errors) {
    point["first_errors"][code] = message;
  }
  for (std::size_t i = 0; i < kStages; ++i) {
    point["stage_mean_us"][std::string(kStageNames[i])] = summary.stage_mean_us[i];
  }
  for (const auto& [size, count] : summary.batch_requests) {
    point["batch_requests"][absl::StrCat(size)] = count;
  }
  for (const auto& [entry, count] : summary.entries) point["entries"][entry_names[entry]] = count;
  if (findings.verified > 0) {
    point["verified"] = findings.verified;
    point["wrong"] = findings.wrong;
    if (findings.wrong > 0) point["first_wrong"] = findings.first_wrong;
  }
  if (run.stable) point["stable"] = *run.stable;
  if (!run.ended_early.empty()) point["ended_early"] = run.ended_early;
  if (summary.pauses > 0) {
    point["pauses"] = {{"count", summary.pauses},
                       {"seconds", summary.paused_s},
                       {"share", summary.paused_s / (options.concurrency * summary.seconds)}};
  }
  if (run.cpu) {
    point["cpu"] = {{"client_share", run.cpu->process}, {"cores", run.cpu->cores}};
    if (run.cpu->machine >= 0) point["cpu"]["machine_share"] = run.cpu->machine;
  }
  point["warnings"] = Warnings(options, run, summary, findings);
  point = DistributionJson(summary, std::move(point));
  Json& timeline = point["timeline"] = List();
  for (const Slice& slice : Timeline(run, kSlices)) {
    timeline.push_back({{"begin_s", slice.begin_s},
                        {"requests_per_s", slice.requests_per_s},
                        {"errors_per_s", slice.errors_per_s},
                        {"p50_us", slice.p50_us},
                        {"p90_us", slice.p90_us},
                        {"p95_us", slice.p95_us},
                        {"p99_us", slice.p99_us},
                        {"p99.9_us", slice.p999_us}});
  }
  point["measured_s"] = {static_cast<double>(run.begin_ns) / kSecond,
                         static_cast<double>(run.end_ns) / kSecond};
  if (resamples.blocks > 0) point["resamples"] = ResamplesJson(resamples);
  return point;
}

std::vector<std::string> Warnings(const LoadOptions& options, const LoadRun& run,
                                  const Summary& summary, const Findings& findings) {
  constexpr double kBusy = 0.9;
  std::vector<std::string> warnings;
  if (findings.wrong > 0) {
    warnings.push_back(absl::StrCat(findings.wrong, " of ", findings.verified,
                                    " verified products are wrong: ", findings.first_wrong));
  }
  if (run.cpu && run.cpu->process > kBusy) {
    warnings.push_back(absl::StrFormat(
        "the client used %.0f%% of its %d cores: it is the bottleneck, not the server",
        run.cpu->process * 100, run.cpu->cores));
  } else if (run.cpu && run.cpu->machine > 0.95) {
    warnings.push_back(
        absl::StrFormat("this machine was %.0f%% busy, %.0f%% of it by the client: they compete",
                        run.cpu->machine * 100, run.cpu->process * 100));
  }
  if (summary.pauses > 0) {
    warnings.push_back(absl::StrFormat(
        "nobody answered (UNAVAILABLE): %d pauses before further tries, %.3g%% of "
        "the time of the requests in flight",
        summary.pauses, 100 * summary.paused_s / (options.concurrency * summary.seconds)));
  }
  if (summary.not_sent > 0) {
    warnings.push_back(absl::StrCat(
        summary.not_sent, " requests were due but never sent (at most ", options.max_in_flight,
        " are in flight); they count in the latencies with the time they waited"));
  }
  if (options.arrivals && summary.late_p99_us > 1000 &&
      summary.late_p99_us > 0.1 * summary.latency.p99_us) {
    warnings.push_back(
        absl::StrFormat("requests left late (p99 %.1f ms): part of the latency is the client's own",
                        summary.late_p99_us / 1e3));
  }
  if (run.stable && !*run.stable) {
    warnings.push_back(absl::StrFormat("no %d windows agreed within %.0f%%: not stable", kAgreeing,
                                       options.stability.bound * 100));
  }
  if (!run.ended_early.empty()) warnings.push_back("the run ended early: " + run.ended_early);
  if (summary.ok == 0) {
    warnings.emplace_back("nothing was answered with OK in the measured time");
  } else if (summary.ok < 1000) {
    warnings.push_back(
        absl::StrCat("p99.9 of ", summary.ok, " answers is their slowest; measure longer"));
  }
  return warnings;
}

absl::StatusOr<Json> ParseReport(const std::string& text) {
  Json report = Json::parse(text, nullptr, false);
  try {
    const std::string why = WhyNoReport(report);
    if (!why.empty()) return absl::InvalidArgumentError(why);
  } catch (const Json::exception& error) {  // a member of another type than ours
    return absl::InvalidArgumentError(absl::StrCat("is no report of gemm bench: ", error.what()));
  }
  return report;
}

std::string LoadName(const Json& point) {
  const Json& load = point.at("load");
  const std::string on =
      point.contains("server") ? absl::StrCat(" on ", point["server"].get<std::string>()) : "";
  if (load.value("loop", "") == "closed") {
    return absl::StrCat("concurrency ", load.value("concurrency", 0), on);
  }
  const std::string arrivals = load.value("arrivals", "");
  if (arrivals == "replay") return absl::StrCat("replay of ", load.value("requests", 0), on);
  return absl::StrFormat("%s %.6g/s%s", arrivals, load.value("rate_per_s", 0.0), on);
}

std::optional<double> ValueOf(const Figure& figure, const Json& point) {
  if (figure.kind == FigureKind::kShare) {
    const double requests = point["requests"].get<double>();
    return requests > 0 ? (requests - point["ok"].get<double>()) / requests : 0;
  }
  const Json::json_pointer pointer{std::string(figure.pointer)};
  if (!point.contains(pointer)) return std::nullopt;
  return point[pointer].get<double>();
}

std::string CsvReport(const Json& report) {
  std::string csv =
      "load,seconds,requests,ok,errors,not_sent,offered_per_s,requests_per_s,gb_per_s,tflops,"
      "mean_us,p50_us,p90_us,p99_us,p99.9_us,max_us,p95_us,rate_per_s\n";
  for (const Json& point : report["points"]) {
    const std::uint64_t errors = point["requests"].get<std::uint64_t>() -
                                 point["ok"].get<std::uint64_t>() -
                                 point["not_sent"].get<std::uint64_t>();
    const Json& latency = point["latency_us"];
    absl::StrAppend(&csv, LoadName(point), ",", point.value("seconds", 0.0), ",",
                    point["requests"].dump(), ",", point["ok"].dump(), ",", errors, ",",
                    point["not_sent"].dump());
    for (const char* name : {"offered_per_s", "requests_per_s", "gb_per_s", "tflops"}) {
      absl::StrAppend(&csv, ",", point[name].dump());
    }
    for (const char* name : {"mean", "p50", "p90", "p99", "p99.9", "max"}) {
      absl::StrAppend(&csv, ",", latency[name].dump());
    }
    // Younger than the columns before.
    const Json* const p95 = latency.contains("p95") ? &latency["p95"] : nullptr;
    const Json& load = point["load"];
    absl::StrAppend(&csv, ",", p95 == nullptr ? "" : p95->dump(), ",",
                    load.contains("rate_per_s") ? load["rate_per_s"].dump() : "");
    csv += "\n";
  }
  return csv;
}

}  // namespace gemmd::load
