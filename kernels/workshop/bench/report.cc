#include "kernels/workshop/bench/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace gemmd::bench {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const Summary& summary) {
  return {{"median", summary.median}, {"lowest", summary.lowest}, {"highest", summary.highest}};
}

Json ToJson(const CaseReport& report, const Timing& timing, const Peaks* peaks) {
  if (!timing.error.empty()) return {{"error", timing.error}};
  const Derived derived = Derive(report, timing, peaks);
  return {{"sustained_ms", ToJson(timing.sustained_ms)},
          {"burst_ms", ToJson(timing.burst_ms)},
          {"sustained_tflops", derived.sustained_tflops},
          {"burst_tflops", derived.burst_tflops},
          {"sustained_ratio", derived.sustained_ratio},
          {"burst_ratio", derived.burst_ratio},
          {"sustained_roofline", derived.sustained_roofline},
          {"burst_roofline", derived.burst_roofline},
          {"sm_mhz", timing.sm_mhz},
          {"watts", timing.watts}};
}

Json ToJson(const Checked& checked) {
  return {{"error_over_bound", checked.error_over_bound},
          {"largest_difference", checked.largest_difference},
          {"different", checked.different}};
}

Json ToJson(const Peaks& peaks) {
  return {{"read_gbps", peaks.read_gbps},
          {"mma_sustained_tflops", peaks.mma_sustained},
          {"mma_burst_tflops", peaks.mma_burst},
          {"wgmma_sustained_tflops", peaks.wgmma_sustained},
          {"wgmma_burst_tflops", peaks.wgmma_burst}};
}

Json ToJson(const Report& report, const CaseReport& c) {
  const Peaks* peaks = PeaksFor(report, c.c);
  Json rows = Json::array();
  for (const Row& row : c.rows) {
    Json json = {{"kernel", row.kernel}, {"config", row.config}};
    if (report.ladder != nullptr)
      json["published"] = PublishedCell(*report.ladder, c.c.shape, row.kernel);
    if (!row.error.empty()) {
      json["error"] = row.error;
      json["wrong"] = row.is_wrong;
    } else {
      json["check"] = ToJson(row.checked);
      json["timing"] = ToJson(c, row.timing, peaks);
    }
    rows.push_back(std::move(json));
  }
  return {{"shape", ToString(c.c.shape)},
          {"types", c.c.types.name},
          {"layout", ToString(c.c.layout)},
          {"padded", c.c.is_padded},
          {"problem", c.problem},
          {"flops", c.flops},
          {"bytes", c.bytes},
          {"cublaslt",
           {{"algorithms", c.algorithms},
            {"streams", c.rival_streams},
            {"best_algorithm", c.best_algorithm},
            {"search_us", c.search_ms * 1e3},
            {"first_us", c.first_ms * 1e3},
            {"check", ToJson(c.rival_checked)},
            {"timing", ToJson(c, c.rival, peaks)}}},
          {"rows", std::move(rows)}};
}

// The least milliseconds in which bytes and flops can be had; 0 where a peak is missing.
double Floor(const CaseReport& report, double gbps, double tflops) {
  if (gbps == 0 || tflops == 0) return 0;
  return std::max(report.bytes / gbps * 1e-6, report.flops / tflops * 1e-9);
}

double Over(double numerator, double denominator) {
  return denominator == 0 ? 0 : numerator / denominator;
}

}  // namespace

double Tflops(double flops, double milliseconds) { return Over(flops * 1e-9, milliseconds); }

Derived Derive(const CaseReport& report, const Timing& timing, const Peaks* peaks) {
  Derived derived;
  if (!timing.error.empty()) return derived;
  const double sustained = timing.sustained_ms.median;
  const double burst = timing.burst_ms.median;
  derived.sustained_tflops = Tflops(report.flops, sustained);
  derived.burst_tflops = Tflops(report.flops, burst);
  if (report.rival.error.empty()) {
    derived.sustained_ratio = Over(report.rival.sustained_ms.median, sustained);
    derived.burst_ratio = Over(report.rival.burst_ms.median, burst);
  }
  if (peaks != nullptr) {
    derived.sustained_roofline =
        Over(Floor(report, peaks->read_gbps, peaks->sustained()), sustained);
    derived.burst_roofline = Over(Floor(report, peaks->read_gbps, peaks->burst()), burst);
  }
  return derived;
}

const Peaks* PeaksFor(const Report& report, const Case& c) {
  const auto found = report.peaks.find(std::string(Name(c.types.a)));
  return found == report.peaks.end() ? nullptr : &found->second;
}

std::string ToJson(const Report& report) {
  Json peaks = Json::object();
  for (const auto& [type, peak] : report.peaks) peaks[type] = ToJson(peak);
  Json cases = Json::array();
  for (const CaseReport& c : report.cases) cases.push_back(ToJson(report, c));
  const MachineInfo& machine = report.machine;
  Json json = {{"command", report.command},
               {"date", report.date},
               {"machine",
                {{"model", machine.traits.model},
                 {"compute_capability", machine.traits.compute_capability},
                 {"multiprocessors", machine.traits.compute_units},
                 {"driver", machine.driver},
                 {"runtime", machine.runtime},
                 {"vendor_library", machine.vendor_library},
                 {"telemetry", machine.telemetry},
                 {"power_limit_watts", machine.power_limit_watts},
                 {"highest_sm_mhz", machine.highest_sm_mhz}}},
               {"protocol",
                {{"rounds", report.protocol.rounds},
                 {"sustained_ms", report.protocol.sustained_ms},
                 {"burst_ms", report.protocol.burst_ms},
                 {"idle_ms", report.protocol.idle_ms}}},
               {"peaks", std::move(peaks)},
               {"cases", std::move(cases)}};
  if (report.ladder != nullptr) {
    Json cublas = Json::object();
    for (const PublishedSize& size : report.ladder->sizes) {
      cublas[ToString(Shape{size.side, size.side, size.side})] = size.cublas_tflops;
    }
    json["ladder"] = {{"name", report.ladder->name},
                      {"published_as", report.ladder->published_as},
                      {"published_cublas_tflops", std::move(cublas)}};
  }
  return json.dump(2) + "\n";
}

int WrongRows(const Report& report) {
  int wrong = 0;
  for (const CaseReport& c : report.cases) {
    for (const Row& row : c.rows) wrong += row.is_wrong;
  }
  return wrong;
}

}  // namespace gemmd::bench
