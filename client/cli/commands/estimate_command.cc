// gemm estimate: what a product would take on the server, the way there and back included, and
// whether this machine would be faster.
#include <array>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/bench/cpu_speed.h"
#include "client/cli/bench/network_speed.h"
#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/resident_table.h"
#include "client/cli/views/table.h"
#include "client/wire/matmul_header.h"
#include "client/wire/wire_types.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm estimate -s 2048x2048x2048
  gemm estimate -s 1x8192x8192 --type bf16 --b @a1b2c3d4-7  # B stays on the server (gemm put)
  gemm estimate -s 512x512x512 --cpu-gflops 80 --probe-bytes 0
  gemm --json estimate -s 4096x4096x4096 | jq .offload_is_faster
)";

struct EstimateArguments {
  std::string shape;  // MxNxK
  std::string a;      // "@OPERAND", one on the server; empty: sent along
  std::string b;
  std::optional<DataType> type;
  client::MatmulOptions options;
  double cpu_gflops = 0;  // 0: measured
  std::uint64_t probe_bytes = 4 << 20;
};

// All times in microseconds.
struct Verdict {
  NetworkSpeed network;
  CpuSpeed cpu;
  double upload_us = 0;
  double download_us = 0;
  double total_us = 0;  // as the caller would see it
  double cpu_us = 0;

  bool offload_is_faster() const { return total_us < cpu_us; }
};

std::optional<std::array<std::uint64_t, 3>> ParseShape(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  std::array<std::uint64_t, 3> shape{};
  if (parts.size() != shape.size()) return std::nullopt;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (!absl::SimpleAtoi(parts[i], &shape[i])) return std::nullopt;
    if (shape[i] < 1 || shape[i] > kMaxDimension) return std::nullopt;
  }
  return shape;
}

v1::EstimateRequest Request(const EstimateArguments& arguments,
                            const std::array<std::uint64_t, 3>& shape) {
  v1::EstimateRequest request;
  v1::MatmulHeader& header = *request.mutable_header();
  client::SetHeader(arguments.options, header);
  const auto plane = [&](std::uint64_t rows, std::uint64_t columns, bool transpose,
                         v1::Plane* wire) {
    wire->set_type(ToWire(arguments.type.value_or(DataType::kF32)));
    wire->set_rows(transpose ? columns : rows);
    wire->set_columns(transpose ? rows : columns);
    wire->set_order(v1::ROW_MAJOR);
  };
  const auto& [m, n, k] = shape;
  plane(m, k, arguments.options.transpose_a, header.mutable_a()->mutable_data());
  plane(k, n, arguments.options.transpose_b, header.mutable_b()->mutable_data());
  // A resident operand has its own shape, which the server knows.
  const auto name = [](const std::string& text, v1::Operand* operand) {
    if (text.empty()) return;
    operand->Clear();
    client::SetName(ParseName(text), operand);
  };
  name(arguments.a, header.mutable_a());
  name(arguments.b, header.mutable_b());
  return request;
}

// Returns the time of this network where it was measured, else the server's prediction.
double TransferUs(double gbps, std::uint64_t bytes, double server_us) {
  return gbps > 0 ? static_cast<double>(bytes) / (gbps * 1e3) : server_us;
}

Verdict Judge(const v1::EstimateResponse& estimate, const NetworkSpeed& network,
              const CpuSpeed& cpu) {
  Verdict verdict;
  verdict.network = network;
  verdict.cpu = cpu;
  verdict.upload_us =
      TransferUs(network.upload_gbps, estimate.receive_bytes(), estimate.receive_us());
  verdict.download_us =
      TransferUs(network.download_gbps, estimate.send_bytes(), estimate.send_us());
  verdict.total_us = network.round_trip_us + verdict.upload_us + estimate.queue_us() +
                     estimate.device_us() + verdict.download_us;
  verdict.cpu_us = cpu.gflops > 0 ? estimate.flops() / (cpu.gflops * 1e3) : 0;
  return verdict;
}

std::string TransferSource(double gbps, std::uint64_t bytes, bool is_measured) {
  if (gbps > 0) return absl::StrFormat("%s at %.2f GB/s, measured", HumanBytes(bytes), gbps);
  return absl::StrCat(HumanBytes(bytes), is_measured ? ", as the server has measured"
                                                     : " at 1 GB/s, which nobody measured");
}

std::string Describe(const v1::EstimateResponse& estimate, const Verdict& verdict) {
  Table what({{}, {}});
  what.AddRow({"kernel", absl::StrCat(estimate.kernel(), ", ", estimate.device())});
  what.AddRow({"plan", estimate.plan()});
  what.AddRow({"numerics", absl::StrCat(estimate.numerics_id(), " (",
                                        Word(v1::Determinism_Name(estimate.determinism())), ")")});
  Table stages({{"stage", Table::Align::kLeft},
                {"us", Table::Align::kRight},
                {"from", Table::Align::kLeft}});
  const auto add = [&stages](const char* stage, double us, const std::string& from) {
    stages.AddRow({stage, Microseconds(us), from});
  };
  add("round trip", verdict.network.round_trip_us, "measured, with nothing to send");
  add("upload", verdict.upload_us,
      TransferSource(verdict.network.upload_gbps, estimate.receive_bytes(),
                     estimate.receive_is_measured()));
  add("queue", estimate.queue_us(), "what waits there now");
  add("copy in", estimate.copy_in_us(), "");
  add("compute", estimate.compute_us(), "");
  add("copy out", estimate.copy_out_us(), "");
  add("device", estimate.device_us(), "of the last three, the longest where they overlap");
  add("download", verdict.download_us,
      TransferSource(verdict.network.download_gbps, estimate.send_bytes(),
                     estimate.send_is_measured()));
  add("total", verdict.total_us, "round trip, upload, queue, device, download");
  add("here", verdict.cpu_us,
      absl::StrFormat("%.1f GFLOP/s, %s", verdict.cpu.gflops, verdict.cpu.library));
  return absl::StrCat(
      what.Render(), "\n", stages.Render(), "\n",
      verdict.offload_is_faster() ? "The server is faster: " : "This machine is faster: ",
      Microseconds(verdict.total_us), " us there, ", Microseconds(verdict.cpu_us), " us here\n");
}

nlohmann::ordered_json Json(const v1::EstimateResponse& estimate, const Verdict& verdict) {
  return {{"server", ToJson(estimate)},
          {"network",
           {{"round_trip_us", verdict.network.round_trip_us},
            {"upload_gbps", verdict.network.upload_gbps},
            {"download_gbps", verdict.network.download_gbps}}},
          {"cpu", {{"gflops", verdict.cpu.gflops}, {"library", verdict.cpu.library}}},
          {"upload_us", verdict.upload_us},
          {"download_us", verdict.download_us},
          {"total_us", verdict.total_us},
          {"cpu_us", verdict.cpu_us},
          {"offload_is_faster", verdict.offload_is_faster()}};
}

Outcome RunEstimate(const GlobalOptions& global, const EstimateArguments& arguments) {
  if (Outcome failure = WantOneServer(global, "estimate")) return failure;
  const auto shape = ParseShape(arguments.shape);
  if (!shape.has_value()) {
    return UsageFailure(absl::StrCat("--shape is \"", arguments.shape,
                                     "\"; it must be MxNxK, three numbers of 1 to ",
                                     kMaxDimension));
  }
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  const client::CallOptions call = CallWithin(global.timeout);
  v1::EstimateRequest request = Request(arguments, *shape);
  // First as it is: a shape that is refused costs no measurement.
  auto estimate = connection->Estimate(request, call);
  if (!estimate.ok()) return ServerFailure(global.server, estimate.status());
  const CpuSpeed cpu = arguments.cpu_gflops > 0 ? CpuSpeed{arguments.cpu_gflops, "as given"}
                                                : MeasureCpu(arguments.type == DataType::kF64);
  const auto network = MeasureNetwork(connection.get(), arguments.probe_bytes, call);
  if (!network.ok()) return ServerFailure(global.server, network.status());
  request.set_caller_gflops(cpu.gflops);
  estimate = connection->Estimate(request, call);
  if (!estimate.ok()) return ServerFailure(global.server, estimate.status());
  const Verdict verdict = Judge(*estimate, *network, cpu);
  if (global.json) {
    std::cout << Json(*estimate, verdict).dump() << "\n";
  } else {
    std::cout << Describe(*estimate, verdict);
  }
  return std::nullopt;
}

}  // namespace

void AddEstimateCommand(Commands& commands) {
  CLI::App& app =
      *commands.app.add_subcommand("estimate", "Predict what a product would take there, and here");
  const auto arguments = std::make_shared<EstimateArguments>();
  app.add_option("-s,--shape", arguments->shape, "D is M x N, and K is summed over")
      ->required()
      ->type_name("MxNxK");
  app.add_option("--a", arguments->a, "A is on the server under this handle or name")
      ->type_name("@OPERAND");
  app.add_option("--b", arguments->b, "B is on the server under this handle or name")
      ->type_name("@OPERAND");
  AddChoice(app, "--type", TypeChoices(), arguments->type, "Type of A and B; f32 unless given");
  AddChoice(app, "--output-type", TypeChoices(), arguments->options.output_type,
            "Type of D; A's, bf16 for fp8, int32 for int8, unless given");
  app.add_flag("--transpose-a", arguments->options.transpose_a, "A is stored transposed");
  app.add_flag("--transpose-b", arguments->options.transpose_b, "B is stored transposed");
  AddChoice(app, "--determinism", DeterminismChoices(), arguments->options.determinism,
            "What a row's bits may depend on")
      ->default_str("batch-invariant");
  app.add_option(
         "--kernel", arguments->options.kernel,
         "Use this kernel (gemm kernels lists them; sm90/f32_f16x3, for f32 of like sizes, errs\n"
         "by up to 2^-38 K of the largest of a row of A times the largest of a column of B)")
      ->type_name("NAME");
  app.add_option("--cpu-gflops", arguments->cpu_gflops,
                 "GFLOP/s of this machine; measured unless given, in f32 (f64 for f64)")
      ->check(CLI::PositiveNumber)
      ->type_name("X");
  app.add_option("--probe-bytes", arguments->probe_bytes,
                 "What is sent each way, twice, to measure the network; 0 takes the server's word")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{32} << 20))
      ->capture_default_str()
      ->type_name("N");
  app.footer(Footer(kExamples));
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunEstimate(commands.global, *arguments); };
  });
}

}  // namespace gemmd::cli
