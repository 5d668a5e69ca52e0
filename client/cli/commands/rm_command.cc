// gemm rm: has the server forget matrices.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/resident_table.h"
#include "client/operands.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm rm a1b2c3d4-7
  gemm rm a1b2c3d4-7 a1b2c3d4-8
)";

Outcome RunRm(const GlobalOptions& global, const std::vector<std::string>& names) {
  std::unique_ptr<client::Operands> operands;
  if (Outcome failure = Connect(global, operands)) return failure;
  for (const std::string& name : names) {
    const absl::Status released = operands->Release(ParseName(name), CallWithin(global.timeout));
    if (!released.ok()) return ServerFailure(global.server, released);
  }
  if (global.json) std::cout << nlohmann::ordered_json{{"released", names}}.dump() << "\n";
  return std::nullopt;
}

}  // namespace

void AddRmCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand(
      "rm", "Have the server forget matrices; stops at the first error");
  const auto names = std::make_shared<std::vector<std::string>>();
  app.add_option("names", *names, "Handles, or digests in hexadecimal, with or without @")
      ->required()
      ->type_name("HANDLE");
  app.footer(Footer(kExamples));
  app.callback([&commands, names] {
    commands.selected = [&commands, names] { return RunRm(commands.global, *names); };
  });
}

}  // namespace gemmd::cli
