// gemm trace: when the stages of the last requests ran, as a file for trace viewers.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/output_file.h"
#include "client/cli/options.h"
#include "client/trace/trace_formats.h"
#include "nlohmann/json.hpp"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] =
    R"(  gemm trace --last 10s -o trace.json        # open it at https://ui.perfetto.dev
  gemm trace -o trace.pftrace                # Perfetto's own format
  gemm trace --last 1m -o - > trace.json     # the report goes to standard error
)";

enum class TraceFormat : std::uint8_t { kJson, kPerfetto };

struct TraceArguments {
  absl::Duration last = absl::Seconds(10);
  std::string output;
  std::optional<TraceFormat> format;  // by the file's name unless given
};

struct Summary {
  int requests = 0;
  std::uint64_t left_out = 0;
  double span_s = 0;  // from the first arrival to the last end
};

Summary SummaryOf(const v1::TracesResponse& traces) {
  Summary summary;
  summary.requests = traces.timelines_size();
  summary.left_out = traces.left_out();
  double begin = 0;
  double end = 0;
  for (const v1::Timeline& each : traces.timelines()) {
    const double arrival = static_cast<double>(each.arrival_unix_ns()) * 1e-9;
    begin = begin == 0 ? arrival : std::min(begin, arrival);
    end = std::max(end, arrival + each.receipt().total_us() * 1e-6);
  }
  summary.span_s = end - begin;
  return summary;
}

void Print(const GlobalOptions& global, const TraceArguments& arguments, const Summary& summary) {
  if (global.json) {
    std::cout << nlohmann::ordered_json{{"requests", summary.requests},
                                        {"left_out", summary.left_out},
                                        {"seconds", summary.span_s},
                                        {"output", arguments.output}}
                     .dump()
              << "\n";
    return;
  }
  std::string text = absl::StrFormat("%d requests of %.3f s -> %s\n", summary.requests,
                                     summary.span_s, arguments.output);
  if (summary.left_out != 0) {
    absl::StrAppend(&text, summary.left_out,
                    " older ones found no room; --last says how far back\n");
  }
  PrintBeside(text, {arguments.output});
}

Outcome RunTrace(const GlobalOptions& global, const TraceArguments& arguments) {
  if (Outcome failure = WantOneServer(global, "trace")) return failure;
  if (Outcome failure = CheckOutput(arguments.output, global.json)) return failure;
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  v1::TracesRequest request;
  request.set_last_us(static_cast<std::uint64_t>(
      std::max<std::int64_t>(1, absl::ToInt64Microseconds(arguments.last))));
  const absl::StatusOr<v1::TracesResponse> traces =
      connection->Traces(request, CallWithin(global.timeout));
  if (!traces.ok()) return ServerFailure(global.server, traces.status());
  const bool is_perfetto = arguments.format.has_value()
                               ? *arguments.format == TraceFormat::kPerfetto
                               : absl::EndsWith(arguments.output, ".pftrace");
  const client::TraceModel model = client::ModelOf(*traces);
  const std::string text = is_perfetto ? client::ToPerfetto(model) : client::ToChromeJson(model);
  if (Outcome failure = WriteOutput(arguments.output, text)) return failure;
  Print(global, arguments, SummaryOf(*traces));
  return std::nullopt;
}

}  // namespace

void AddTraceCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand(
      "trace", "Write when the stages of the last requests ran, for a trace viewer");
  app.footer(Footer(kExamples));
  const auto arguments = std::make_shared<TraceArguments>();
  AddDuration(app, "--last", arguments->last, "Requests that ended no longer ago")
      ->default_str("10s");
  AddOutputFile(app, "-o,--output", arguments->output,
                "Write the trace, whole or not at all; - is standard output")
      ->required();
  AddChoice(
      app, "--format",
      Choices<TraceFormat>{{"json", TraceFormat::kJson}, {"perfetto", TraceFormat::kPerfetto}},
      arguments->format,
      "Chrome's trace events, or Perfetto's protobuf, which a name ending in .pftrace means "
      "too")
      ->default_str("json");
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunTrace(commands.global, *arguments); };
  });
}

}  // namespace gemmd::cli
