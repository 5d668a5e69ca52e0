#include "client/cli/bench/bench_run.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/text/duration.h"
#include "base/time/units.h"
#include "base/version.h"
#include "client/cli/bench/bench_progress.h"
#include "client/cli/bench/bench_record.h"
#include "client/cli/bench/bench_target.h"
#include "client/cli/bench/bench_turns.h"
#include "client/cli/bench/cpu_speed.h"
#include "client/cli/bench/echo_process.h"

namespace gemmd::cli {
namespace {

load::Json MachineJson() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  std::string model = "unknown";
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) {
      model = line.substr(line.find(": ") + 2);
      break;
    }
  }
  return {{"cpu", model}, {"cores", load::ReadCpu().machine_cores}};
}

// The ceiling for the whole report: closed loop, at the largest concurrency that was
// measured, or with 16 requests a channel where loads were open.
Outcome MeasureCeiling(const GlobalOptions& global, const BenchArguments& arguments,
                       const BenchTarget& bench, BenchProgress& progress, load::Json& report) {
  load::LoadOptions options = SharedLoad(arguments);
  options.concurrency = 16 * arguments.channels;
  const load::Json* best = nullptr;
  for (const load::Json& point : report["points"]) {
    if (best == nullptr || point["requests_per_s"] > (*best)["requests_per_s"]) best = &point;
  }
  if (best == nullptr) return std::nullopt;
  options.concurrency = (*best)["load"].value("concurrency", options.concurrency);
  EchoProcess process;
  BenchTarget echo;
  if (Outcome failure = MakeEchoTarget(global, arguments, bench.matmul->sizes(), process, echo)) {
    return failure;
  }
  echo.weights = bench.weights;
  echo.costs = bench.costs;
  echo.names = bench.names;
  Measured measured;
  if (Outcome failure = echo.Measure(options, "ceiling", progress, measured)) return failure;
  const load::Summary& summary = measured.summary;
  echo.owned.reset();  // before its server
  report["ceiling"] = {
      {"concurrency", options.concurrency},
      {"channels", arguments.channels},
      {"streams", arguments.streams},
      {"requests_per_s", summary.requests_per_s},
      {"gb_per_s", summary.gb_per_s},
      {"of", load::LoadName(*best)},
      {"ratio", summary.requests_per_s > 0
                    ? (*best)["requests_per_s"].get<double>() / summary.requests_per_s
                    : 0}};
  return std::nullopt;
}

Outcome MeasureSweep(const BenchArguments& arguments, BenchTarget& bench, BenchProgress& progress,
                     BenchRecord& record, load::Json& report) {
  std::vector<load::LoadOptions> loads;
  if (Outcome failure = MakeLoads(arguments, loads)) return failure;
  for (const load::LoadOptions& options : loads) {
    if (WasInterrupted()) break;
    Measured measured;
    if (Outcome failure = bench.Measure(options, NameOf(options), progress, measured)) {
      return failure;
    }
    if (Outcome failure = record.Keep(bench, std::move(measured), report)) return failure;
  }
  return std::nullopt;
}

// A quarter of what a closed loop reaches: low enough that the first trial is calm.
Outcome FirstRate(const BenchArguments& arguments, BenchTarget& bench, BenchProgress& progress,
                  double& rate_per_s) {
  if (!arguments.rates.empty()) {
    rate_per_s = arguments.rates[0];
    return std::nullopt;
  }
  load::LoadOptions options = SharedLoad(arguments);
  options.concurrency = 4 * arguments.channels;
  options.duration_ns = 2 * kSecond;
  Measured measured;
  if (Outcome failure = bench.Measure(options, "first rate", progress, measured)) return failure;
  rate_per_s = std::max(1.0, measured.summary.requests_per_s / 4);
  return std::nullopt;
}

Outcome MeasureSearch(const BenchArguments& arguments, BenchTarget& bench, BenchProgress& progress,
                      BenchRecord& record, load::Json& report) {
  if (!arguments.concurrencies.empty() || !arguments.replay.empty() || arguments.rates.size() > 1) {
    return UsageFailure(
        "--find-knee and --slo try rates of their own; they take one --rate, the first");
  }
  constexpr double kPrecision = 0.05;
  constexpr int kMaxTrials = 30;
  load::Slo slo;
  if (!arguments.slo.empty()) {
    absl::StatusOr<load::Slo> parsed = load::ParseSlo(arguments.slo);
    if (!parsed.ok()) return UsageFailure(absl::StrCat("--slo: ", parsed.status().message()));
    slo = *std::move(parsed);
  }
  double first_per_s = 0;
  if (Outcome failure = FirstRate(arguments, bench, progress, first_per_s)) return failure;
  load::RateSearch search(first_per_s, kPrecision, kMaxTrials);
  double calm_p99_us = 0;
  std::string why;
  while (const std::optional<double> rate = search.Next()) {
    if (WasInterrupted()) break;
    load::LoadOptions options = SharedLoad(arguments);
    options.arrivals = load::ArrivalPlan{arguments.arrivals, *rate, arguments.seed, {}};
    if (!options.duration_ns) options.duration_ns = 5 * kSecond;
    Measured measured;
    std::string missed;
    // A rate fails only twice: other work on the machine must not end the search.
    for (int attempt = 0; attempt < 2 && !WasInterrupted(); ++attempt) {
      if (Outcome failure = bench.Measure(options, NameOf(options), progress, measured)) {
        return failure;
      }
      missed = slo.limits.empty() ? load::WhyPastKnee(measured.summary, calm_p99_us)
                                  : load::WhyMissed(slo, measured.summary);
      if (missed.empty()) break;
    }
    if (calm_p99_us == 0) calm_p99_us = measured.summary.latency.p99_us;
    if (!missed.empty()) {
      measured.point["missed"] = missed;
      why = missed;
    }
    search.Report(missed.empty());
    if (Outcome failure = record.Keep(bench, std::move(measured), report)) return failure;
  }
  // Rates were tried in the search's order; readers want a curve.
  std::sort(report["points"].begin(), report["points"].end(),
            [](const load::Json& a, const load::Json& b) {
              return a["load"]["rate_per_s"] < b["load"]["rate_per_s"];
            });
  report["search"] = {{"for", arguments.slo.empty() ? "knee" : arguments.slo},
                      {"first_per_s", first_per_s},
                      {"best_per_s", nullptr},
                      {"broken_per_s", nullptr},
                      {"why", why}};
  if (search.best()) report["search"]["best_per_s"] = *search.best();
  if (search.broken()) report["search"]["broken_per_s"] = *search.broken();
  return std::nullopt;
}

// This machine's BLAS at the workload's shape, after the load, when the server has nothing to do.
// The server's speed is that of its compute stage in the point where that was shortest.
void MeasureBlas(load::Json& report) {
  const load::Json& entry = report["workload"][0];
  const CpuShape shape{entry["m"].get<int>(), entry["n"].get<int>(), entry["k"].get<int>()};
  const bool is_f64 = entry["type"] == "f64";
  const CpuSpeed speed = MeasureCpu(is_f64, shape);
  double compute_us = 0;
  for (const load::Json& point : report["points"]) {
    const double us = point["stage_mean_us"]["compute"].get<double>();
    if (us > 0 && (compute_us == 0 || us < compute_us)) compute_us = us;
  }
  const double gflops = compute_us > 0 ? entry["flops"].get<double>() / compute_us / 1e3 : 0;
  report["blas"] = {{"library", speed.library},
                    {"type", is_f64 ? "f64" : "f32"},
                    {"gflops", speed.gflops},
                    {"server_gflops", gflops},
                    {"ratio", gflops / speed.gflops}};
}

// Beside how they are sent, which bytes can be too.
bool DescribesProducts(load::RequestSpec spec) {
  spec.clear_call();
  spec.clear_channels();
  spec.clear_chunk_bytes();
  return spec.ByteSizeLong() > 0;
}

// CLI11 knows of options, and not of how many values one has.
Outcome CheckTurns(const BenchArguments& arguments) {
  if (!arguments.takes_turns()) {
    if (!arguments.rounds.has_value()) return std::nullopt;
    return UsageFailure("--rounds is of --against, or of several protocols in --protocol");
  }
  if (arguments.searches() || arguments.ceiling || arguments.blas) {
    return UsageFailure(
        "--protocol has several, which take turns; drop --slo, --find-knee, --ceiling and --blas");
  }
  return std::nullopt;
}

}  // namespace

Outcome MeasureAll(const GlobalOptions& global, const BenchArguments& arguments,
                   load::Json& report) {
  if (arguments.null_bytes > 0 &&
      (!arguments.shapes.empty() || !arguments.workload.empty() || arguments.verify_fraction > 0 ||
       arguments.protocols != std::vector<load::Protocol>{load::Protocol::kGemmd} ||
       DescribesProducts(arguments.shared))) {
    return UsageFailure("--null sends bytes, no products; drop what describes or checks products");
  }
  if (Outcome failure = CheckTurns(arguments)) return failure;
  if (arguments.null_work > absl::ZeroDuration() && arguments.shared.call() == "stream") {
    return UsageFailure("--null-work is for unary calls; drop --call=stream");
  }
  report["machine"] = MachineJson();
  report["options"] = {{"channels", arguments.channels},
                       {"streams", arguments.streams},
                       {"warm_up", DurationText(arguments.warm_up)},
                       {"seed", arguments.seed}};
  report["points"] = load::Json::array();
  BenchRecord record;
  if (Outcome failure = record.Open(arguments)) return failure;
  BenchProgress progress(arguments.quiet);
  const InterruptGuard guard;
  if (arguments.takes_turns()) {
    return MeasureByTurns(global, arguments, progress, record, report);
  }
  BenchTarget bench;
  EchoProcess echo;
  if (arguments.null_bytes > 0) {
    report["server"] = {{"address", "a bare echo of this program's own"}};
    load::EchoSizes sizes;
    sizes.request_bytes = sizes.answer_bytes = arguments.null_bytes;
    sizes.streamed = arguments.shared.call() == "stream";
    sizes.stripes = static_cast<int>(std::max(1U, arguments.shared.channels()));
    if (arguments.shared.chunk_bytes() > 0) sizes.chunk_bytes = arguments.shared.chunk_bytes();
    sizes.work = absl::ToChronoMicroseconds(arguments.null_work);
    if (Outcome failure = MakeEchoTarget(global, arguments, {sizes}, echo, bench)) return failure;
    bench.weights = {1};
    bench.costs = {{arguments.null_bytes, arguments.null_bytes, 0}};
    bench.names = {absl::StrCat(
        "echo of ", arguments.null_bytes, " bytes", sizes.streamed ? ", streamed" : "",
        sizes.work.count() > 0 ? absl::StrCat(" after ", DurationText(arguments.null_work)) : "")};
  } else if (Outcome failure =
                 MakeMatmulTarget(global, arguments, arguments.protocols[0], report, bench)) {
    return failure;
  }
  Outcome failure = arguments.searches() ? MeasureSearch(arguments, bench, progress, record, report)
                                         : MeasureSweep(arguments, bench, progress, record, report);
  if (!failure && arguments.ceiling && !WasInterrupted()) {
    failure = MeasureCeiling(global, arguments, bench, progress, report);
  }
  if (!failure && arguments.blas && !WasInterrupted()) MeasureBlas(report);
  bench.owned.reset();  // before the echo's process
  return failure;
}

}  // namespace gemmd::cli
