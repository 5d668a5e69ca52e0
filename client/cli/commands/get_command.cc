// gemm get: a matrix from the server to a file.
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/output_file.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/resident_table.h"
#include "client/operands.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm get a1b2c3d4-7 -o D.npy
  gemm get a1b2c3d4-7                       # what it is, without its bytes
  gemm get Q -o Q.npy --scales-output q.npy
)";

struct GetArguments {
  std::string name;
  std::string output;
  std::string scales_output;
};

Outcome RunGet(const GlobalOptions& global, const GetArguments& arguments) {
  if (!arguments.output.empty() &&
      PathToWrite(arguments.output) == PathToWrite(arguments.scales_output)) {
    return UsageFailure(absl::StrCat("--output and --scales-output are ", arguments.output,
                                     ", which takes one matrix"));
  }
  for (const std::string& path : {arguments.output, arguments.scales_output}) {
    if (Outcome failure = CheckOutput(path, global.json)) return failure;
  }
  std::unique_ptr<client::Operands> operands;
  if (Outcome failure = Connect(global, operands)) return failure;
  const client::OperandName name = ParseName(arguments.name);
  const auto resident = operands->Describe(name, CallWithin(global.timeout));
  if (!resident.ok()) return ServerFailure(global.server, resident.status());
  if (!arguments.scales_output.empty() && !resident->operand().has_scales()) {
    return UsageFailure(absl::StrCat("--scales-output: ", arguments.name, " has no scales"));
  }
  if (!arguments.output.empty() || !arguments.scales_output.empty()) {
    const auto operand = operands->Get(name, CallWithin(global.timeout));
    if (!operand.ok()) return ServerFailure(global.server, operand.status());
    if (operand->k_order != nullptr) {
      return UsageFailure(absl::StrCat(
          arguments.name, " has an order of K (act-order), which a .npy file has no place for"));
    }
    if (Outcome failure = WriteOutput(arguments.output, operand->data.view())) return failure;
    if (!arguments.scales_output.empty()) {
      if (Outcome failure = WriteOutput(arguments.scales_output, operand->scales->view())) {
        return failure;
      }
    }
  }
  if (global.json) {
    std::cout << ToJson(*resident).dump() << "\n";
  } else {
    PrintBeside(ResidentTable({*resident}), {arguments.output, arguments.scales_output});
  }
  return std::nullopt;
}

}  // namespace

void AddGetCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand("get", "Download a matrix that the server keeps");
  const auto arguments = std::make_shared<GetArguments>();
  app.add_option("name", arguments->name,
                 "Handle, digest in hexadecimal, or name, with or without @")
      ->required()
      ->type_name("OPERAND");
  AddOutputFile(app, "-o,--output", arguments->output,
                "Write it as .npy, whole or not at all; - is standard output");
  AddOutputFile(app, "--scales-output", arguments->scales_output, "Write its scales as .npy");
  app.footer(Footer(kExamples));
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunGet(commands.global, *arguments); };
  });
}

}  // namespace gemmd::cli
