// gemm ls: the matrices that the server keeps.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/text/glob.h"
#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/resident_table.h"
#include "client/operands.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm ls
  gemm ls "model.layers.0.*"
  gemm --tenant team-a ls --json
  gemm ls --all-tenants                     # for operators
)";

struct LsArguments {
  std::string pattern;  // empty: all of them
  bool all_tenants = false;
};

bool HasNameLike(const v1::ResidentOperand& resident, const std::string& pattern) {
  return std::any_of(resident.names().begin(), resident.names().end(),
                     [&](const std::string& name) { return MatchesGlob(pattern, name); });
}

Outcome RunLs(const GlobalOptions& global, const LsArguments& arguments) {
  std::unique_ptr<client::Operands> operands;
  if (Outcome failure = Connect(global, operands)) return failure;
  auto residents = arguments.all_tenants ? operands->ListAll(CallWithin(global.timeout))
                                         : operands->List(CallWithin(global.timeout));
  if (!residents.ok()) return ServerFailure(global.server, residents.status());
  if (!arguments.pattern.empty()) {
    const auto others = std::remove_if(
        residents->begin(), residents->end(),
        [&](const v1::ResidentOperand& each) { return !HasNameLike(each, arguments.pattern); });
    residents->erase(others, residents->end());
  }
  if (global.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const v1::ResidentOperand& each : *residents) list.push_back(ToJson(each));
    std::cout << nlohmann::ordered_json{{"residents", list}}.dump() << "\n";
  } else {
    std::cout << ResidentTable(*residents, arguments.all_tenants);
  }
  return std::nullopt;
}

}  // namespace

void AddLsCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand("ls", "List the matrices that the server keeps");
  const auto arguments = std::make_shared<LsArguments>();
  app.add_option("pattern", arguments->pattern,
                 "Those alone that have such a name: * stands for any characters, ? for one")
      ->type_name("PATTERN");
  app.add_flag("--all-tenants", arguments->all_tenants,
               "Those of every tenant, for callers with the role operator");
  app.footer(Footer(kExamples));
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunLs(commands.global, *arguments); };
  });
}

}  // namespace gemmd::cli
