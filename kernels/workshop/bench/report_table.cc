// The report as text and as Markdown.
#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kernels/workshop/bench/report.h"

namespace gemmd::bench {
namespace {

using Cells = std::vector<std::string>;

std::string Ratio(double ratio) { return ratio == 0 ? "-" : absl::StrFormat("%.3f", ratio); }

std::string Share(double share) {
  return share == 0 ? "-" : absl::StrFormat("%.0f %%", 100 * share);
}

std::string WithSpread(double tflops, const Summary& summary) {
  return absl::StrFormat("%.1f +-%.1f%%", tflops, 50 * summary.spread());
}

Cells Header(const Report& report) {
  Cells cells = {"kernel"};
  if (report.ladder != nullptr) cells.emplace_back("published");
  for (const char* title : {"burst TFLOP/s", "ratio", "sustained TFLOP/s", "ratio", "burst us",
                            "roofline b, s", "MHz", "W", "error/bound"}) {
    cells.emplace_back(title);
  }
  return cells;
}

// Returns as many cells as Header() has.
Cells Body(const Report& report, const CaseReport& c, const std::string& kernel,
           const std::string& published, const Timing& timing, const Checked& checked) {
  const Derived derived = Derive(c, timing, PeaksFor(report, c.c));
  Cells cells = {kernel};
  if (report.ladder != nullptr) cells.push_back(published);
  cells.push_back(WithSpread(derived.burst_tflops, timing.burst_ms));
  cells.push_back(Ratio(derived.burst_ratio));
  cells.push_back(WithSpread(derived.sustained_tflops, timing.sustained_ms));
  cells.push_back(Ratio(derived.sustained_ratio));
  cells.push_back(absl::StrFormat("%.2f", timing.burst_ms.median * 1e3));
  cells.push_back(
      absl::StrCat(Share(derived.burst_roofline), ", ", Share(derived.sustained_roofline)));
  cells.push_back(timing.sm_mhz == 0 ? "-" : absl::StrFormat("%.0f", timing.sm_mhz));
  cells.push_back(timing.watts == 0 ? "-" : absl::StrFormat("%.0f", timing.watts));
  cells.push_back(absl::StrFormat("%.3f", checked.error_over_bound));
  return cells;
}

std::string RivalName(const CaseReport& c) {
  std::string name = absl::StrCat("cuBLASLt, best of ", c.algorithms);
  if (c.rival_streams != std::vector<int>{1}) {
    absl::StrAppend(&name, " on ", absl::StrJoin(c.rival_streams, ", "), " streams");
  }
  return name;
}

// The table without rows that have no figures; those in *others, a line each.
std::vector<Cells> Table(const Report& report, const CaseReport& c, Cells* others) {
  std::vector<Cells> table = {Header(report)};
  if (c.rival.error.empty()) {
    const std::string published =
        report.ladder == nullptr ? "" : PublishedCublasCell(*report.ladder, c.c.shape);
    table.push_back(Body(report, c, RivalName(c), published, c.rival, c.rival_checked));
  } else {
    others->push_back(absl::StrCat("cuBLASLt: ", c.rival.error));
  }
  for (const Row& row : c.rows) {
    if (!row.error.empty()) {
      others->push_back(absl::StrCat(row.kernel, row.is_wrong ? ": WRONG: " : ": ", row.error));
      continue;
    }
    const std::string published =
        report.ladder == nullptr ? "" : PublishedCell(*report.ladder, c.c.shape, row.kernel);
    table.push_back(Body(report, c, row.kernel, published, row.timing, row.checked));
  }
  return table;
}

std::string Title(const CaseReport& c) {
  return absl::StrCat(ToString(c.c.shape), " ", c.c.types.name, " ", ToString(c.c.layout),
                      c.c.is_padded ? "" : ", lines not padded");
}

std::string SearchLine(const CaseReport& c) {
  if (!c.rival.error.empty()) return "";
  return absl::StrFormat(
      "cuBLASLt searched as bare programs do: first %.2f us, best (%d of %d) %.2f us, %.1f TFLOP/s",
      c.first_ms * 1e3, c.best_algorithm, c.algorithms, c.search_ms * 1e3,
      Tflops(c.flops, c.search_ms));
}

std::string PeakLine(const std::string& type, const Peaks& peaks) {
  std::string line = absl::StrFormat("peaks, %s: mma.sync %.1f TFLOP/s in a burst, %.1f sustained",
                                     type, peaks.mma_burst, peaks.mma_sustained);
  if (peaks.wgmma_burst > 0) {
    absl::StrAppendFormat(&line, "; wgmma %.1f, %.1f", peaks.wgmma_burst, peaks.wgmma_sustained);
  }
  return absl::StrFormat("%s; reads %.0f GB/s", line, peaks.read_gbps);
}

}  // namespace

std::string MachineText(const Report& report) {
  const MachineInfo& machine = report.machine;
  std::string text = absl::StrFormat(
      "%s, sm_%d, %d multiprocessors, driver %s, CUDA %s, cuBLASLt %s\n%s", machine.traits.model,
      machine.traits.compute_capability, machine.traits.compute_units, machine.driver,
      machine.runtime, machine.vendor_library, machine.telemetry);
  if (machine.power_limit_watts > 0) {
    absl::StrAppendFormat(&text, "; power limit %.0f W, clock up to %.0f MHz",
                          machine.power_limit_watts, machine.highest_sm_mhz);
  }
  text += "\n";
  for (const auto& [type, peaks] : report.peaks)
    absl::StrAppend(&text, PeakLine(type, peaks), "\n");
  if (report.ladder != nullptr) {
    absl::StrAppend(&text, "published: ", report.ladder->published_as,
                    "; TFLOP/s (ratio to its cuBLAS)\n");
  }
  return text;
}

std::string CaseText(const Report& report, const CaseReport& c) {
  Cells others;
  const std::vector<Cells> table = Table(report, c, &others);
  std::vector<std::size_t> widths(table.front().size(), 0);
  for (const Cells& line : table) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text = absl::StrCat("\n", Title(c), "\n");
  if (table.size() > 1) {
    for (const Cells& line : table) {
      text += " ";
      for (std::size_t i = 0; i < line.size(); ++i) {
        const int width = static_cast<int>(widths[i]);
        absl::StrAppendFormat(&text, " %*s", i == 0 ? -width : width, line[i]);
      }
      text += "\n";
    }
  }
  for (const std::string& line : others) absl::StrAppend(&text, "  ", line, "\n");
  const std::string search = SearchLine(c);
  if (!search.empty()) absl::StrAppend(&text, "  ", search, "\n");
  return text;
}

std::string SummaryText(const Report& report) {
  // Over the cases that a kernel was timed in beside the rival.
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> ratios;
  for (const CaseReport& c : report.cases) {
    for (const Row& row : c.rows) {
      if (!row.error.empty() || !c.rival.error.empty()) continue;
      const Derived derived = Derive(c, row.timing, nullptr);
      ratios[row.kernel].first.push_back(derived.burst_ratio);
      ratios[row.kernel].second.push_back(derived.sustained_ratio);
    }
  }
  std::string text;
  for (const auto& [kernel, both] : ratios) {
    absl::StrAppendFormat(&text,
                          "%s: geometric mean of ratios over %d cases: burst %.3f, "
                          "sustained %.3f\n",
                          kernel, both.first.size(), GeometricMean(both.first),
                          GeometricMean(both.second));
  }
  const int wrong = WrongRows(report);
  if (wrong > 0) absl::StrAppendFormat(&text, "%d rows are WRONG\n", wrong);
  return text;
}

std::string ToMarkdown(const Report& report) {
  const MachineInfo& machine = report.machine;
  std::string text = absl::StrFormat(
      "`%s`, %s, one %s (%d multiprocessors, driver %s), CUDA %s, cuBLASLt %s. %s", report.command,
      report.date, machine.traits.model, machine.traits.compute_units, machine.driver,
      machine.runtime, machine.vendor_library, machine.telemetry);
  if (machine.power_limit_watts > 0) {
    absl::StrAppendFormat(&text, "; limit %.0f W", machine.power_limit_watts);
  }
  absl::StrAppendFormat(
      &text,
      ". Order shuffled, medians of %d rounds with half their spread; sustained: %.0f ms behind "
      "as much of the same kernel; burst: %.0f ms idle, a warm launch, %.0f ms. Ratio: to the best "
      "of cuBLASLt's algorithms (16 asked). Roofline: the least time that the peaks below allow.\n",
      report.protocol.rounds, report.protocol.sustained_ms, report.protocol.idle_ms,
      report.protocol.burst_ms);
  for (const auto& [type, peaks] : report.peaks) {
    absl::StrAppend(&text, "\n", PeakLine(type, peaks), ".\n");
  }
  if (report.ladder != nullptr) {
    absl::StrAppend(&text, "\nPublished: ", report.ladder->published_as, ".\n");
  }
  for (const CaseReport& c : report.cases) {
    Cells others;
    const std::vector<Cells> table = Table(report, c, &others);
    absl::StrAppend(&text, "\n**", Title(c), "**\n\n");
    for (std::size_t i = 0; i < table.size() && table.size() > 1; ++i) {
      absl::StrAppend(&text, "| ", absl::StrJoin(table[i], " | "), " |\n");
      if (i > 0) continue;
      for (std::size_t j = 0; j < table[0].size(); ++j) text += "|---";
      text += "|\n";
    }
    for (const std::string& line : others) absl::StrAppend(&text, "\n", line, "\n");
    const std::string search = SearchLine(c);
    if (!search.empty()) absl::StrAppend(&text, "\n", search, ".\n");
  }
  return text;
}

}  // namespace gemmd::bench
