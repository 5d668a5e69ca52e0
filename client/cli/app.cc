#include "client/cli/app.h"

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/version.h"
#include "client/cli/commands/command.h"
#include "client/cli/connection.h"
#include "client/cli/failure.h"
#include "client/cli/options.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm info
  gemm matmul A.npy B.npy -o D.npy
  gemm --server gpu-node:50051 kernels --explain 2048 2048 2048
  gemm --servers gpu-1,gpu-2 matmul A.npy B.npy -o D.npy
  gemm put W.npy && gemm ls
  gemm bench -c 1,4,16 -s 512x512x512
  gemm matmul --help
)";

// Where to read more: in the help of the subcommand that was being read.
std::string HelpHint(const CLI::App& app) {
  const auto selected = app.get_subcommands();
  return absl::StrCat(" (see gemm ", selected.empty() ? "" : selected[0]->get_name() + " ",
                      "--help)");
}

// CLI11 says of "gemm multiply" only that a subcommand is missing.
std::string Why(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_name() != "RequiredError" || !app.get_subcommands().empty()) return error.what();
  const std::vector<std::string> words = app.remaining();
  if (words.empty()) return error.what();
  if (absl::StartsWith(words[0], "-")) return absl::StrCat("there is no option ", words[0]);
  std::vector<std::string> known;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(each->get_name());
  }
  return absl::StrCat("\"", words[0], "\" is no subcommand; it must be one of ",
                      absl::StrJoin(known, ", "));
}

// Prints a help or version that was asked for; then nothing is selected.
Outcome Parse(int argc, const char* const* argv, CLI::App& app) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return UsageFailure(Why(app, error));
  }
  return std::nullopt;
}

Outcome Flush() {
  std::cout.flush();
  if (std::cout.good()) return std::nullopt;
  return Failure{ExitCode::kFile, "standard output", "cannot be written", std::nullopt};
}

}  // namespace

int Run(int argc, const char* const* argv) {
  GlobalOptions global;
  CLI::App app("Matrix products on a gemmd server", "gemm");
  Commands commands{app, global, absl::StrJoin(argv, argv + argc, " "), {}};
  app.require_subcommand(1);
  // Lets global options stand after a subcommand too; subcommands inherit it.
  app.fallthrough();
  app.set_version_flag("--version", absl::StrCat("gemm ", kVersion), "Print the version and exit");
  AddGlobalOptions(app, global);
  AddMatmulCommand(commands);
  AddInfoCommand(commands);
  AddHealthCommand(commands);
  AddDrainCommand(commands);
  AddServersCommand(commands);
  AddStatsCommand(commands);
  AddTopCommand(commands);
  AddTraceCommand(commands);
  AddKernelsCommand(commands);
  AddEstimateCommand(commands);
  AddTuneCommand(commands);
  AddBenchCommand(commands);
  AddQuantizeCommand(commands);
  AddWeightsCommand(commands);
  AddPutCommand(commands);
  AddGetCommand(commands);
  AddLsCommand(commands);
  AddNameCommand(commands);
  AddRmCommand(commands);
  AddCompletionCommand(commands);
  app.footer(Footer(kExamples));

  Outcome failure = Parse(argc, argv, app);
  // Errors name the server with its port. A command that needs one says what is wrong with it.
  global.server = absl::StrJoin(ServersOf(global), ",");
  if (!failure && commands.selected) failure = commands.selected();
  if (!failure) failure = Flush();
  if (!failure) return static_cast<int>(ExitCode::kOk);
  if (failure->exit_code == ExitCode::kUsage) absl::StrAppend(&failure->why, HelpHint(app));
  std::cerr << ToLine(*failure) << "\n";
  // Looked for by hand, because options are unread where parsing them is what failed.
  const bool json = std::any_of(argv, argv + argc, [](const char* argument) {
    return absl::string_view(argument) == "--json";
  });
  if (json && !failure->in_output) std::cout << ToJson(*failure).dump() << "\n" << std::flush;
  return static_cast<int>(failure->exit_code);
}

}  // namespace gemmd::cli
