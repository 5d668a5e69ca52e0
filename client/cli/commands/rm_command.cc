// gemm rm: has the server forget matrices.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/glob.h"
#include "base/text/quoted.h"
#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/resident_table.h"
#include "client/operands.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm rm a1b2c3d4-7
  gemm rm a1b2c3d4-7 encoder.w
  gemm rm "model.layers.*"
)";

// The names that the pattern stands for, or the text itself if it is no pattern.
Outcome Expand(const GlobalOptions& global, client::Operands& operands, const std::string& text,
               std::vector<client::OperandName>& found) {
  const client::OperandName operand = ParseName(text);
  if (!IsGlob(operand.name)) {
    found.push_back(operand);
    return std::nullopt;
  }
  const auto residents = operands.List(CallWithin(global.timeout));
  if (!residents.ok()) return ServerFailure(global.server, residents.status());
  const std::size_t before = found.size();
  for (const v1::ResidentOperand& resident : *residents) {
    for (const std::string& name : resident.names()) {
      if (MatchesGlob(operand.name, name)) found.push_back({{}, {}, std::nullopt, name});
    }
  }
  if (found.size() != before) return std::nullopt;
  return ServerFailure(global.server, absl::NotFoundError(absl::StrCat("no matrix has a name like ",
                                                                       Quoted(operand.name))));
}

Outcome RunRm(const GlobalOptions& global, const std::vector<std::string>& texts) {
  std::unique_ptr<client::Operands> operands;
  if (Outcome failure = Connect(global, operands)) return failure;
  nlohmann::ordered_json released = nlohmann::ordered_json::array();
  for (const std::string& text : texts) {
    std::vector<client::OperandName> found;
    if (Outcome failure = Expand(global, *operands, text, found)) return failure;
    for (const client::OperandName& each : found) {
      const absl::Status status = operands->Release(each, CallWithin(global.timeout));
      if (!status.ok()) return ServerFailure(global.server, status);
      released.push_back(IsGlob(ParseName(text).name) ? each.name : text);
    }
  }
  if (global.json) std::cout << nlohmann::ordered_json{{"released", released}}.dump() << "\n";
  return std::nullopt;
}

}  // namespace

void AddRmCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand(
      "rm", "Have the server forget matrices; stops at the first error");
  const auto texts = std::make_shared<std::vector<std::string>>();
  app.add_option("names", *texts,
                 "Handles, digests in hexadecimal, names, or patterns of names with * and ?, with "
                 "or without @. One of several names of a matrix is forgotten alone")
      ->required()
      ->type_name("NAME");
  app.footer(Footer(kExamples));
  app.callback([&commands, texts] {
    commands.selected = [&commands, texts] { return RunRm(commands.global, *texts); };
  });
}

}  // namespace gemmd::cli
