// gemm bench: load on a server, measured; gemm bench diff: two measurements compared.
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/version.h"
#include "client/cli/bench/bench_explain.h"
#include "client/cli/bench/bench_options.h"
#include "client/cli/bench/bench_run.h"
#include "client/cli/bench/bench_table.h"
#include "client/cli/bench/bench_target.h"
#include "client/cli/bench/bench_verdict.h"
#include "client/cli/bench/echo_process.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/output_file.h"
#include "client/cli/options.h"
#include "client/file.h"
#include "client/load/report/diff.h"
#include "client/load/report/html_report.h"
#include "client/load/report/report.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm bench -c 1,2,4,8,16 -s 512x512x512 --html report.html
  gemm bench -r 200 -s 1x4096x4096:9 -s 64x4096x4096:1 --type bf16 --duration 30s
  gemm bench --slo p99=20ms,errors=0.1% -s 256x256x256 --verify-fraction 0.01
  gemm bench -s 1x4096x4096 --type mxfp8-e4m3 --operands resident-b
  gemm bench -s 1x4096x4096 --type a=bf16,b=int4-g128-f16 --operands resident-b
  gemm bench -s 1x4096x4096 --type int4-g128-f16 --explain
  gemm bench -c 64 --channels 8 --ceiling --save before.json
  gemm bench -c 4 -s 256x256x256 --fail-on 'failed>1%,p99>5s'
  gemm bench --against localhost:50052 -c 4 -s 256x256x256 --rounds 20
  gemm bench --protocol gemmd,oip -c 4 -s 1x4096x4096 --operands resident-b
  gemm bench diff before.json after.json
)";

constexpr char kDiffExamples[] = R"(  gemm bench diff before.json after.json
  gemm bench diff before.json after.json --threshold 10 --json
  gemm bench diff before.json after.json --fail-on 'p99>+10%,throughput<-5%,failed>+1%'
)";

Outcome CheckOutputs(const GlobalOptions& global, const BenchArguments& arguments) {
  if (IsStandardOutput(arguments.save) && IsStandardOutput(arguments.html)) {
    return UsageFailure("--save and --html both want standard output");
  }
  if (Outcome failure = CheckOutput(arguments.save, global.json)) return failure;
  return CheckOutput(arguments.html, global.json);
}

// The report as it is printed: beside the files that have it too.
std::string Printed(const GlobalOptions& global, const BenchArguments& arguments,
                    const load::Json& report) {
  if (global.json) return report.dump() + "\n";
  if (arguments.csv) return load::CsvReport(report);
  return report["points"].empty() ? "" : BenchTable(report);
}

Outcome RunExplain(const GlobalOptions& global, const BenchArguments& arguments) {
  if (Outcome failure = WantOneServer(global, "bench")) return failure;
  if (arguments.csv || arguments.null_bytes > 0 || !arguments.save.empty() ||
      !arguments.html.empty() || !arguments.samples.empty() || !arguments.histogram.empty() ||
      !arguments.fail_on.empty()) {
    return UsageFailure(
        "--explain sends no load; drop --csv, --save, --html, --samples, --histogram, --fail-on "
        "and "
        "--null");
  }
  return ExplainBench(global, arguments);
}

Outcome RunBench(const GlobalOptions& global, const BenchArguments& arguments,
                 const std::string& command) {
  if (Outcome failure = WantOneServer(global, "bench")) return failure;
  if (arguments.csv && global.json) return UsageFailure("--csv and --json exclude each other");
  if (arguments.explain) return RunExplain(global, arguments);
  std::vector<load::Condition> conditions;
  if (Outcome failure = ReadConditions(arguments.fail_on, arguments.takes_turns(), conditions)) {
    return failure;
  }
  if (Outcome failure = CheckOutputs(global, arguments)) return failure;
  load::Json report = {
      {"format", load::kReportFormat},
      {"format_version", load::kReportVersion},
      {"gemm_version", kVersion},
      {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone())},
      {"command", command}};
  if (Outcome failure = MeasureAll(global, arguments, report)) return failure;
  Outcome verdict = JudgeBench(global, arguments, conditions, report);
  if (!verdict && WasInterrupted()) {
    verdict = Failure{ExitCode::kInterrupted, "interrupted",
                      "the report has what was measured until then", std::nullopt};
  }
  if (verdict) {
    report["error"] = ToJson(*verdict)["error"];
    verdict->in_output = global.json;
  }
  if (Outcome failure = WriteOutput(arguments.save, report.dump() + "\n")) return failure;
  if (Outcome failure = WriteOutput(arguments.html, load::HtmlReport(report))) return failure;
  PrintBeside(Printed(global, arguments, report),
              {arguments.save, arguments.html, arguments.histogram});
  return verdict;
}

struct DiffArguments {
  std::string before;
  std::string after;
  double threshold_percent = 5;
  std::vector<std::string> fail_on;
};

Outcome ReadReport(const std::string& path, load::Json& report) {
  const absl::StatusOr<client::InputFile> file = client::InputFile::Open(path);
  if (!file.ok()) return FileFailure(file.status());
  const absl::StatusOr<std::string> bytes = file->Read(0, file->size_bytes());
  if (!bytes.ok()) return FileFailure(bytes.status());
  absl::StatusOr<load::Json> parsed = load::ParseReport(*bytes);
  if (!parsed.ok()) {
    return FileFailure(
        absl::InvalidArgumentError(absl::StrCat(path, ": ", parsed.status().message())));
  }
  report = *std::move(parsed);
  return std::nullopt;
}

Outcome RunDiff(const GlobalOptions& global, const DiffArguments& arguments) {
  std::vector<load::Condition> conditions;
  if (Outcome failure = ReadConditions(arguments.fail_on, true, conditions)) return failure;
  load::Json before;
  load::Json after;
  if (Outcome failure = ReadReport(arguments.before, before)) return failure;
  if (Outcome failure = ReadReport(arguments.after, after)) return failure;
  const load::ReportDiff diff = load::DiffReports(before, after);
  if (diff.changes.empty()) {
    return FileFailure(absl::InvalidArgumentError(
        absl::StrCat(arguments.after, ": has no load that ", arguments.before, " has")));
  }
  const double threshold = arguments.threshold_percent / 100;
  load::Json document = {{"changes", load::ChangesJson(diff.changes, threshold)},
                         {"only_before", diff.only_before},
                         {"only_after", diff.only_after},
                         {"warnings", diff.warnings}};
  Outcome verdict = JudgeDiff(diff, conditions, threshold, document);
  if (!global.json) {
    std::cout << DiffTable(diff, threshold);
    return verdict;
  }
  if (verdict) {
    document["error"] = ToJson(*verdict)["error"];
    verdict->in_output = true;
  }
  std::cout << document.dump() << "\n";
  return verdict;
}

void AddDiffCommand(CLI::App& bench, Commands& commands) {
  CLI::App& app = *bench.add_subcommand("diff", "Compare two reports of --save or --json");
  const auto arguments = std::make_shared<DiffArguments>();
  app.add_option("BEFORE", arguments->before, "A report")->required()->type_name("FILE");
  app.add_option("AFTER", arguments->after, "Another")->required()->type_name("FILE");
  app.add_option("--threshold", arguments->threshold_percent,
                 "Changes beyond so many % are called better or worse, unless their interval "
                 "covers zero")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
  AddFailOn(
      app, arguments->fail_on,
      "End with code 8 or 9 where this holds, as p99>+10%,throughput<-5%, and no longer where "
      "anything is worse; p99>5ms is of AFTER. Changes within their interval pass");
  app.footer(Footer(kDiffExamples));
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunDiff(commands.global, *arguments); };
  });
}

}  // namespace

void AddBenchCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand("bench", "Put load on a server and measure it");
  const auto arguments = std::make_shared<BenchArguments>();
  AddBenchOptions(app, *arguments);
  app.footer(Footer(kExamples));
  AddDiffCommand(app, commands);
  CLI::App& echo = *app.add_subcommand("echo-server", "")->group("");
  const auto encrypted = std::make_shared<bool>(false);
  echo.add_flag("--encrypted", *encrypted);
  echo.callback([&commands, encrypted] {
    commands.selected = [encrypted] { return RunEchoServer(*encrypted); };
  });
  // Runs after those of its own subcommands.
  app.callback([&commands, &app, arguments] {
    if (!app.get_subcommands().empty()) return;
    commands.selected = [&commands, arguments] {
      return RunBench(commands.global, *arguments, commands.line);
    };
  });
}

}  // namespace gemmd::cli
