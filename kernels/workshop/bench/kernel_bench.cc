// kernel_bench: kernels of the registry on this machine's GPU, checked and then timed beside
// cuBLASLt. `kernel_bench --help` has the flags; session.h what a run does, protocol.h how it
// times.
#include <chrono>
#include <cstdio>
#include <ctime>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file/write_file.h"
#include "kernels/gemm.h"
#include "kernels/workshop/bench/gpu/gpu_machine.h"
#include "kernels/workshop/bench/options.h"
#include "kernels/workshop/bench/report.h"
#include "kernels/workshop/bench/session.h"

namespace gemmd::bench {
namespace {

enum ExitCode { kRight = 0, kWrong = 1, kBadCommandLine = 2, kNoGpu = 3 };

std::string Today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  char text[32];
  std::tm utc;
  std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &utc));
  return text;
}

bool WriteReport(const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  const absl::Status written = WriteFile(path, {text});
  if (written.ok()) return true;
  std::fprintf(stderr, "%s\n", std::string(written.message()).c_str());
  return false;
}

int List(const Machine& machine) {
  for (const auto& kernel : BuiltinRegistry().kernels()) {
    const std::string reason = kernel->UnavailableReason(machine.info().traits);
    std::printf("%-24s %s\n", kernel->traits().name.c_str(),
                reason.empty() ? kernel->traits().description.c_str() : reason.c_str());
  }
  return kRight;
}

int Run(const Options& options, const std::string& command, Machine* machine) {
  const absl::StatusOr<std::vector<const Kernel*>> kernels =
      MatchingKernels(BuiltinRegistry(), options.kernels);
  if (!kernels.ok()) {
    std::fprintf(stderr, "%s\n", std::string(kernels.status().message()).c_str());
    return kBadCommandLine;
  }
  const absl::StatusOr<Ladder> ladder = FindLadder(options.ladder.empty() ? "A" : options.ladder);
  Report report;
  report.command = command;
  report.date = Today();
  report.machine = machine->info();
  report.protocol = options.protocol;
  if (!options.ladder.empty()) report.ladder = &*ladder;
  const std::vector<Case> cases = Cases(options);
  report.peaks = MeasurePeaks(cases, options.protocol, machine);
  std::printf("%s", MachineText(report).c_str());
  std::mt19937_64 order(options.seed);
  bool is_written = true;
  for (const Case& c : cases) {
    report.cases.push_back(RunCase(c, *kernels, options, &order, machine));
    std::printf("%s", CaseText(report, report.cases.back()).c_str());
    std::fflush(stdout);
    // After every case, so that a run that is cut short leaves what it had.
    is_written = WriteReport(options.json, ToJson(report)) &&
                 WriteReport(options.markdown, ToMarkdown(report)) && is_written;
  }
  std::printf("\n%s", SummaryText(report).c_str());
  return WrongRows(report) == 0 && is_written ? kRight : kWrong;
}

int Main(const std::vector<std::string>& arguments) {
  const absl::StatusOr<Options> options = ParseOptions(arguments);
  if (!options.ok()) {
    std::fprintf(stderr, "%s\n", std::string(options.status().message()).c_str());
    return kBadCommandLine;
  }
  if (options->is_help) {
    std::printf("%s", UsageText().c_str());
    return kRight;
  }
  const absl::StatusOr<std::unique_ptr<Machine>> machine = OpenGpu();
  if (!machine.ok()) {
    std::fprintf(stderr, "no GPU: %s\n", std::string(machine.status().message()).c_str());
    return kNoGpu;
  }
  if (options->is_list) return List(**machine);
  return Run(*options, absl::StrCat("kernel_bench ", absl::StrJoin(arguments, " ")),
             machine->get());
}

}  // namespace
}  // namespace gemmd::bench

int main(int argc, char** argv) { return gemmd::bench::Main({argv + 1, argv + argc}); }
