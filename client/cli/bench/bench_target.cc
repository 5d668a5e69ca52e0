#include "client/cli/bench/bench_target.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gemmd::cli {
namespace {

std::atomic<bool> interrupted = false;

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

}  // namespace

InterruptGuard::InterruptGuard() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }

bool WasInterrupted() { return interrupted; }

Outcome BenchTarget::Run(const load::LoadOptions& options, const std::string& name,
                         BenchProgress& progress, load::LoadRun& run) const {
  load::SteadyClock clock;
  progress.Begin(name);
  absl::StatusOr<load::LoadRun> generated =
      load::GenerateLoad(options, weights, clock, *owned, [&progress](const load::Progress& now) {
        progress.Show(now);
        return !interrupted;
      });
  progress.End();
  if (!generated.ok()) return UsageFailure(generated.status().message());
  run = *std::move(generated);
  return std::nullopt;
}

void BenchTarget::Describe(const load::LoadOptions& options, Measured& measured) const {
  measured.summary = load::Summarize(measured.run, costs);
  const load::Findings findings = matmul == nullptr ? load::Findings() : matmul->TakeFindings();
  measured.point = load::PointJson(options, measured.run, measured.summary, findings, names,
                                   load::Resample(measured.run, costs));
  if (!server.empty()) measured.point["server"] = server;
}

Outcome BenchTarget::Measure(const load::LoadOptions& options, const std::string& name,
                             BenchProgress& progress, Measured& measured) const {
  if (Outcome failure = Run(options, name, progress, measured.run)) return failure;
  Describe(options, measured);
  return std::nullopt;
}

std::string NameOf(const load::LoadOptions& options) {
  return options.arrivals ? absl::StrFormat("rate %.6g", options.arrivals->rate_per_s)
                          : absl::StrCat("concurrency ", options.concurrency);
}

Outcome MakeMatmulTarget(const GlobalOptions& global, const BenchArguments& arguments,
                         load::Protocol protocol, load::Json& report, BenchTarget& target) {
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
  report["server"] = {{"address", global.server},
                      {"version", info->version()},
                      {"protocol", std::string(load::Name(protocol))}};
  if (info->devices_size() > 0) {
    report["server"]["device"] =
        absl::StrCat(info->devices(0).name(), " ", info->devices(0).model());
  }
  load::MatmulTransportOptions options;
  options.protocol = protocol;
  if (Outcome failure = ReadChannelOptions(global, options.channel)) return failure;
  options.channels = arguments.channels;
  options.streams = arguments.streams;
  options.timeout = global.timeout;
  options.verify_fraction = arguments.verify_fraction;
  options.seed = arguments.seed;
  options.calls_per_connection = calls;
  if (!arguments.concurrencies.empty()) {
    options.in_flight =
        *std::max_element(arguments.concurrencies.begin(), arguments.concurrencies.end());
  }
  absl::StatusOr<std::unique_ptr<load::MatmulTransport>> transport =
      load::MatmulTransport::Create(workload, options);
  // Options were checked by ReadWorkload(): what remains is what the server says.
  if (!transport.ok()) return ServerFailure(global.server, transport.status());
  target.matmul = transport->get();
  target.owned = *std::move(transport);
  for (const load::WorkloadEntry& entry : workload) {
    target.weights.push_back(entry.weight);
    target.costs.push_back(entry.cost());
    target.names.push_back(entry.name);
  }
  if (arguments.blas && workload.size() != 1) {
    return UsageFailure("--blas compares one shape; the workload has several");
  }
  report["workload"] = WorkloadJson(workload);
  return std::nullopt;
}

Outcome MakeEchoTarget(const GlobalOptions& global, const BenchArguments& arguments,
                       const std::vector<load::EchoSizes>& sizes, EchoProcess& process,
                       BenchTarget& target) {
  if (Outcome failure = process.Start(global.tls)) return failure;
  load::EchoOptions options;
  options.channel = process.Channel();
  options.channels = arguments.channels;
  options.streams = arguments.streams;
  target.owned = load::MakeEchoTransport(options, sizes);
  target.matmul = nullptr;
  return std::nullopt;
}

}  // namespace gemmd::cli
