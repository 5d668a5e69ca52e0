// gemm ls: the matrices that the server keeps for this tenant.
#include <iostream>
#include <memory>

#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/resident_table.h"
#include "client/operands.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm ls
  gemm --tenant team-a ls --json
)";

Outcome RunLs(const GlobalOptions& global) {
  std::unique_ptr<client::Operands> operands;
  if (Outcome failure = Connect(global, operands)) return failure;
  const auto residents = operands->List(CallWithin(global.timeout));
  if (!residents.ok()) return ServerFailure(global.server, residents.status());
  if (global.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const v1::ResidentOperand& each : *residents) list.push_back(ToJson(each));
    std::cout << nlohmann::ordered_json{{"residents", list}}.dump() << "\n";
  } else {
    std::cout << ResidentTable(*residents);
  }
  return std::nullopt;
}

}  // namespace

void AddLsCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand("ls", "List the matrices that the server keeps");
  app.footer(Footer(kExamples));
  app.callback([&commands] { commands.selected = [&commands] { return RunLs(commands.global); }; });
}

}  // namespace gemmd::cli
