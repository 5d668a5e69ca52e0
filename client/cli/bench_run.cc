#include "client/cli/bench_run.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/text/duration.h"
#include "base/version.h"
#include "client/cli/echo_process.h"
#include "client/load/echo_transport.h"
#include "client/load/matmul_transport.h"

namespace gemmd::cli {
namespace {

std::atomic<bool> interrupted = false;

// While it lives, the first SIGINT sets `interrupted`.
class InterruptGuard {
 public:
  InterruptGuard() {
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ = {};
};

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

const char* CallName(const client::RouteOptions& route) {
  switch (route.transport) {
    case client::Transport::kUnary:
      return "unary";
    case client::Transport::kStream:
      return "stream";
    case client::Transport::kAuto:
      return "auto";
  }
  return "";
}

const char* OperandsName(const load::WorkloadEntry& entry) {
  if (entry.is_shared) return "shared-memory";
  switch (entry.residents) {
    case load::Residents::kNone:
      return "in the request";
    case load::Residents::kB:
      return "resident-b";
    case load::Residents::kBoth:
      return "resident";
  }
  return "";
}

load::Json WorkloadJson(const load::Workload& workload) {
  load::Json list = load::Json::array();
  for (const load::WorkloadEntry& entry : workload) {
    const load::EntryCost cost = entry.cost();
    list.push_back({{"name", entry.name},
                    {"weight", entry.weight},
                    {"m", entry.m()},
                    {"n", entry.n()},
                    {"k", entry.k()},
                    {"type", entry.type_name()},
                    {"call", CallName(entry.route)},
                    {"operands", OperandsName(entry)},
                    {"stripes", entry.route.channels},
                    {"bytes_in", cost.bytes_in},
                    {"bytes_out", cost.bytes_out},
                    {"flops", cost.flops}});
  }
  return list;
}

// Everything that measuring one load needs, whatever carries it.
struct Bench {
  std::unique_ptr<load::Transport> owned;
  load::MatmulTransport* matmul = nullptr;  // null for echoes
  std::vector<double> weights;
  std::vector<load::EntryCost> costs;
  std::vector<std::string> names;

  // Measures and reports progress. `point` gets everything, `summary` the figures.
  Outcome Measure(const load::LoadOptions& options, const std::string& name,
                  BenchProgress& progress, load::Json& point, load::Summary& summary) {
    load::SteadyClock clock;
    progress.Begin(name);
    const absl::StatusOr<load::LoadRun> run =
        load::GenerateLoad(options, weights, clock, *owned, [&progress](const load::Progress& now) {
          progress.Show(now);
          return !interrupted;
        });
    progress.End();
    if (!run.ok()) return UsageFailure(run.status().message());
    summary = load::Summarize(*run, costs);
    const load::Findings findings = matmul == nullptr ? load::Findings() : matmul->TakeFindings();
    point = load::PointJson(options, *run, summary, findings, names);
    return std::nullopt;
  }
};

std::string NameOf(const load::LoadOptions& options) {
  return options.arrivals ? absl::StrFormat("rate %.6g", options.arrivals->rate_per_s)
                          : absl::StrCat("concurrency ", options.concurrency);
}

Outcome MakeMatmulBench(const GlobalOptions& global, const BenchArguments& arguments,
                        load::Json& report, Bench& bench) {
  load::Workload workload;
  if (Outcome failure = ReadWorkload(arguments, workload)) return failure;
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  const auto info = connection->ServerInfo(CallWithin(global.timeout));
  if (!info.ok()) return ServerFailure(global.server, info.status());
  // A stream is a call, and one that gRPC keeps back would wait for ever.
  const std::uint64_t calls = info->limits().calls_per_connection();
  if (calls != 0 && static_cast<std::uint64_t>(arguments.streams) > calls) {
    return UsageFailure(absl::StrCat("--streams is ", arguments.streams, ", and the server takes ",
                                     calls, " calls at once on a connection"));
  }
  report["server"] = {{"address", global.server}, {"version", info->version()}};
  if (info->devices_size() > 0) {
    report["server"]["device"] =
        absl::StrCat(info->devices(0).name(), " ", info->devices(0).model());
  }
  load::MatmulTransportOptions options;
  if (Outcome failure = ReadChannelOptions(global, options.channel)) return failure;
  options.channels = arguments.channels;
  options.streams = arguments.streams;
  options.timeout = global.timeout;
  options.verify_fraction = arguments.verify_fraction;
  options.seed = arguments.seed;
  if (!arguments.concurrencies.empty()) {
    options.in_flight =
        *std::max_element(arguments.concurrencies.begin(), arguments.concurrencies.end());
  }
  absl::StatusOr<std::unique_ptr<load::MatmulTransport>> transport =
      load::MatmulTransport::Create(workload, options);
  // Options were checked by ReadWorkload(): what remains is what the server says.
  if (!transport.ok()) return ServerFailure(global.server, transport.status());
  bench.matmul = transport->get();
  bench.owned = *std::move(transport);
  for (const load::WorkloadEntry& entry : workload) {
    bench.weights.push_back(entry.weight);
    bench.costs.push_back(entry.cost());
    bench.names.push_back(entry.name);
  }
  report["workload"] = WorkloadJson(workload);
  return std::nullopt;
}

// With TLS where the server is called with TLS: what that costs is gRPC's.
Outcome MakeEchoBench(const GlobalOptions& global, const BenchArguments& arguments,
                      const std::vector<load::EchoSizes>& sizes, EchoProcess& process,
                      Bench& bench) {
  if (Outcome failure = process.Start(global.tls)) return failure;
  load::EchoOptions options;
  options.channel = process.Channel();
  options.channels = arguments.channels;
  options.streams = arguments.streams;
  bench.owned = load::MakeEchoTransport(options, sizes);
  bench.matmul = nullptr;
  return std::nullopt;
}

// The ceiling for the whole report: closed loop, at the largest concurrency that was
// measured, or with 16 requests a channel where loads were open.
Outcome MeasureCeiling(const GlobalOptions& global, const BenchArguments& arguments,
                       const Bench& bench, BenchProgress& progress, load::Json& report) {
  load::LoadOptions options = SharedLoad(arguments);
  options.concurrency = 16 * arguments.channels;
  const load::Json* best = nullptr;
  for (const load::Json& point : report["points"]) {
    if (best == nullptr || point["requests_per_s"] > (*best)["requests_per_s"]) best = &point;
  }
  if (best == nullptr) return std::nullopt;
  options.concurrency = (*best)["load"].value("concurrency", options.concurrency);
  EchoProcess process;
  Bench echo;
  if (Outcome failure = MakeEchoBench(global, arguments, bench.matmul->sizes(), process, echo)) {
    return failure;
  }
  echo.weights = bench.weights;
  echo.costs = bench.costs;
  echo.names = bench.names;
  load::Json point;
  load::Summary summary;
  if (Outcome failure = echo.Measure(options, "ceiling", progress, point, summary)) return failure;
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

Outcome MeasureSweep(const BenchArguments& arguments, Bench& bench, BenchProgress& progress,
                     load::Json& report) {
  std::vector<load::LoadOptions> loads;
  if (Outcome failure = MakeLoads(arguments, loads)) return failure;
  for (const load::LoadOptions& options : loads) {
    if (interrupted) break;
    load::Json point;
    load::Summary summary;
    if (Outcome failure = bench.Measure(options, NameOf(options), progress, point, summary)) {
      return failure;
    }
    report["points"].push_back(std::move(point));
  }
  return std::nullopt;
}

// A quarter of what a closed loop reaches: low enough that the first trial is calm.
Outcome FirstRate(const BenchArguments& arguments, Bench& bench, BenchProgress& progress,
                  double& rate_per_s) {
  if (!arguments.rates.empty()) {
    rate_per_s = arguments.rates[0];
    return std::nullopt;
  }
  load::LoadOptions options = SharedLoad(arguments);
  options.concurrency = 4 * arguments.channels;
  options.duration_ns = 2 * load::kNsPerSecond;
  load::Json unused;
  load::Summary summary;
  if (Outcome failure = bench.Measure(options, "first rate", progress, unused, summary)) {
    return failure;
  }
  rate_per_s = std::max(1.0, summary.requests_per_s / 4);
  return std::nullopt;
}

Outcome MeasureSearch(const BenchArguments& arguments, Bench& bench, BenchProgress& progress,
                      load::Json& report) {
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
    if (interrupted) break;
    load::LoadOptions options = SharedLoad(arguments);
    options.arrivals = load::ArrivalPlan{arguments.arrivals, *rate, arguments.seed, {}};
    if (!options.duration_ns) options.duration_ns = 5 * load::kNsPerSecond;
    load::Json point;
    load::Summary summary;
    std::string missed;
    // A rate fails only twice: other work on the machine must not end the search.
    for (int attempt = 0; attempt < 2 && !interrupted; ++attempt) {
      if (Outcome failure = bench.Measure(options, NameOf(options), progress, point, summary)) {
        return failure;
      }
      missed = slo.limits.empty() ? load::WhyPastKnee(summary, calm_p99_us)
                                  : load::WhyMissed(slo, summary);
      if (missed.empty()) break;
    }
    if (calm_p99_us == 0) calm_p99_us = summary.latency.p99_us;
    if (!missed.empty()) {
      point["missed"] = missed;
      why = missed;
    }
    search.Report(missed.empty());
    report["points"].push_back(std::move(point));
  }
  // Rates were tried in the search's order; readers want a curve.
  std::sort(report["points"].begin(), report["points"].end(),
            [](const load::Json& a, const load::Json& b) {
              return a["load"]["rate_per_s"] < b["load"]["rate_per_s"];
            });
  report["search"] = {{"for", arguments.slo.empty() ? "knee" : arguments.slo},
                      {"best_per_s", nullptr},
                      {"broken_per_s", nullptr},
                      {"why", why}};
  if (search.best()) report["search"]["best_per_s"] = *search.best();
  if (search.broken()) report["search"]["broken_per_s"] = *search.broken();
  return std::nullopt;
}

// Beside how they are sent, which bytes can be too.
bool DescribesProducts(load::RequestSpec spec) {
  spec.clear_call();
  spec.clear_channels();
  spec.clear_chunk_bytes();
  return spec.ByteSizeLong() > 0;
}

}  // namespace

bool WasInterrupted() { return interrupted; }

Outcome MeasureAll(const GlobalOptions& global, const BenchArguments& arguments,
                   load::Json& report) {
  if (arguments.null_bytes > 0 &&
      (!arguments.shapes.empty() || !arguments.workload.empty() || arguments.verify_fraction > 0 ||
       DescribesProducts(arguments.shared))) {
    return UsageFailure("--null sends bytes, no products; drop what describes or checks products");
  }
  if (arguments.null_work > absl::ZeroDuration() && arguments.shared.call() == "stream") {
    return UsageFailure("--null-work is for unary calls; drop --call=stream");
  }
  report["machine"] = MachineJson();
  report["options"] = {{"channels", arguments.channels},
                       {"streams", arguments.streams},
                       {"warm_up", DurationText(arguments.warm_up)},
                       {"seed", arguments.seed}};
  report["points"] = load::Json::array();
  Bench bench;
  EchoProcess echo;
  if (arguments.null_bytes > 0) {
    report["server"] = {{"address", "a bare echo of this program's own"}};
    load::EchoSizes sizes;
    sizes.request_bytes = sizes.answer_bytes = arguments.null_bytes;
    sizes.streamed = arguments.shared.call() == "stream";
    sizes.stripes = static_cast<int>(std::max(1U, arguments.shared.channels()));
    if (arguments.shared.chunk_bytes() > 0) sizes.chunk_bytes = arguments.shared.chunk_bytes();
    sizes.work = absl::ToChronoMicroseconds(arguments.null_work);
    if (Outcome failure = MakeEchoBench(global, arguments, {sizes}, echo, bench)) return failure;
    bench.weights = {1};
    bench.costs = {{arguments.null_bytes, arguments.null_bytes, 0}};
    bench.names = {absl::StrCat(
        "echo of ", arguments.null_bytes, " bytes", sizes.streamed ? ", streamed" : "",
        sizes.work.count() > 0 ? absl::StrCat(" after ", DurationText(arguments.null_work)) : "")};
  } else if (Outcome failure = MakeMatmulBench(global, arguments, report, bench)) {
    return failure;
  }
  BenchProgress progress(arguments.quiet);
  const InterruptGuard guard;
  Outcome failure = arguments.searches() ? MeasureSearch(arguments, bench, progress, report)
                                         : MeasureSweep(arguments, bench, progress, report);
  if (!failure && arguments.ceiling && !interrupted) {
    failure = MeasureCeiling(global, arguments, bench, progress, report);
  }
  bench.owned.reset();  // before the echo's process
  return failure;
}

}  // namespace gemmd::cli
