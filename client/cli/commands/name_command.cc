// gemm name: gives a matrix on the server a name.
#include <iostream>
#include <memory>
#include <string>

#include "base/text/operand_name.h"
#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/resident_table.h"
#include "client/operands.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm name a1b2c3d4-7 encoder.w
  gemm name a1b2c3d4-8 encoder.w --replace    # from now on @encoder.w is this one
)";

struct NameArguments {
  std::string operand;
  std::string name;
  bool replace = false;
};

Outcome RunName(const GlobalOptions& global, const NameArguments& arguments) {
  const absl::Status checked = CheckOperandName("NAME", arguments.name);
  if (!checked.ok()) return UsageFailure(checked.message());
  std::unique_ptr<client::Operands> operands;
  if (Outcome failure = Connect(global, operands)) return failure;
  const auto named = operands->SetName(ParseName(arguments.operand), arguments.name,
                                       arguments.replace, CallWithin(global.timeout));
  if (!named.ok()) return ServerFailure(global.server, named.status());
  if (global.json) {
    std::cout << ToJson(*named).dump() << "\n";
  } else {
    std::cout << ResidentTable({named->resident()});
  }
  return std::nullopt;
}

}  // namespace

void AddNameCommand(Commands& commands) {
  CLI::App& app =
      *commands.app.add_subcommand("name", "Give a matrix that the server keeps one more name");
  const auto arguments = std::make_shared<NameArguments>();
  app.add_option("operand", arguments->operand,
                 "Handle, digest in hexadecimal, or name, with or without @")
      ->required()
      ->type_name("OPERAND");
  app.add_option("name", arguments->name, "1 to 255 bytes of UTF-8")->required()->type_name("NAME");
  app.add_flag("--replace", arguments->replace, "Take the name from the matrix that has it");
  app.footer(Footer(kExamples));
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunName(commands.global, *arguments); };
  });
}

}  // namespace gemmd::cli
