// The results of a run, as values, and the figures that follow from them. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/workshop/bench/bench_case.h"
#include "kernels/workshop/bench/ladder.h"
#include "kernels/workshop/bench/machine.h"
#include "kernels/workshop/bench/protocol.h"

namespace gemmd::bench {

// One contender of one case.
struct Row {
  std::string kernel;
  std::string config;
  std::string error;      // why it was not timed; empty where it was
  bool is_wrong = false;  // it ran, and its result is wrong or it failed
  Checked checked;
  Timing timing;
};

struct CaseReport {
  Case c;
  std::string problem;  // ToString()
  double flops = 0;
  double bytes = 0;  // read and written once
  // cuBLASLt's algorithms: how many it offered, the quickest in the search, and its time there.
  int algorithms = 0;
  std::vector<int> rival_streams = {1};  // that its launches take turns on
  int best_algorithm = 0;                // counted from 1
  double search_ms = 0;
  double first_ms = 0;  // of the first algorithm, in the search
  Timing rival;         // the best of the quickest in each column; error: why there is none
  Checked rival_checked;
  std::vector<Row> rows;
};

struct Report {
  std::string command;
  std::string date;
  MachineInfo machine;
  Protocol protocol;
  std::map<std::string, Peaks> peaks;  // by the operands' type: "f16", "bf16"
  std::vector<CaseReport> cases;
  const Ladder* ladder = nullptr;  // whose published figures stand beside; null: none
};

// TFLOP/s of a time in milliseconds; 0 where there is none.
double Tflops(double flops, double milliseconds);

// The figures of a table that follow from a row's two times; each is 0 where it is not known.
struct Derived {
  double sustained_tflops = 0;
  double burst_tflops = 0;
  double sustained_ratio = 0;  // the rival's time over this one: above 1 is quicker
  double burst_ratio = 0;
  double sustained_roofline = 0;  // the least time that this machine's peaks allow, over this one
  double burst_roofline = 0;
};
Derived Derive(const CaseReport& report, const Timing& timing, const Peaks* peaks);

// The peaks for a case's operands; null where they were not measured.
const Peaks* PeaksFor(const Report& report, const Case& c);

// For people, for programs, and a block for docs/benchmarks.
std::string MachineText(const Report& report);
std::string CaseText(const Report& report, const CaseReport& c);
std::string SummaryText(const Report& report);
std::string ToJson(const Report& report);
std::string ToMarkdown(const Report& report);

// Returns the number of wrong rows.
int WrongRows(const Report& report);

}  // namespace gemmd::bench
