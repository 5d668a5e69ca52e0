// gemm get: a matrix from the server to a file.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/output_file.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/resident_table.h"
#include "client/operands.h"
#include "client/quantized/of_operand.h"
#include "client/quantized/quantized_file.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm get a1b2c3d4-7 -o D.npy
  gemm get a1b2c3d4-7                       # what it is, without its bytes
  gemm get Q -o Q.npy --scales-output q.npy
  gemm get Q -o Q.gq                        # quantized: a container, with all that scales it
)";

struct GetArguments {
  std::string name;
  std::string output;
  std::string scales_output;
};

bool IsContainerPath(absl::string_view path) { return absl::EndsWith(path, ".gq"); }

Outcome WriteContainer(const GetArguments& arguments, const client::InlineOperand& operand) {
  const absl::StatusOr<client::QuantizedArray> array = client::FromOperand(operand);
  if (!array.ok()) {
    return UsageFailure(absl::StrCat("--output is ", arguments.output, ", a container, and of ",
                                     arguments.name, ": ", array.status().message()));
  }
  const absl::Status written = client::WriteQuantizedFile(arguments.output, *array);
  if (!written.ok()) return FileFailure(written);
  return std::nullopt;
}

// Names the parts of the operand that the files asked for have no place for.
std::vector<std::string> LostBy(const GetArguments& arguments,
                                const client::InlineOperand& operand) {
  std::vector<std::string> lost;
  for (const v1::PlaneName plane : client::kPlaneNames) {
    const bool is_written =
        plane == v1::DATA || (plane == v1::SCALES && !arguments.scales_output.empty());
    if (is_written || operand.plane(plane) == nullptr) continue;
    lost.push_back(
        absl::StrReplaceAll(absl::AsciiStrToLower(v1::PlaneName_Name(plane)), {{"_", " "}}));
  }
  if (operand.k_order != nullptr) lost.emplace_back("an order of K (act-order)");
  return lost;
}

Outcome WriteArrays(const GetArguments& arguments, const client::InlineOperand& operand) {
  if (const std::vector<std::string> lost = LostBy(arguments, operand); !lost.empty()) {
    return UsageFailure(absl::StrCat(
        arguments.name, " has ", absl::StrJoin(lost, ", "), ", which ", arguments.output,
        " has no place for: a container has one, -o FILE.gq; --scales-output takes scales alone"));
  }
  if (Outcome failure = WriteOutput(arguments.output, operand.data.view())) return failure;
  if (arguments.scales_output.empty()) return std::nullopt;
  return WriteOutput(arguments.scales_output, operand.scales->view());
}

Outcome RunGet(const GlobalOptions& global, const GetArguments& arguments) {
  if (!arguments.output.empty() &&
      PathToWrite(arguments.output) == PathToWrite(arguments.scales_output)) {
    return UsageFailure(absl::StrCat("--output and --scales-output are ", arguments.output,
                                     ", which takes one matrix"));
  }
  const bool is_container = IsContainerPath(arguments.output);
  if (!arguments.scales_output.empty() &&
      (is_container || IsContainerPath(arguments.scales_output))) {
    return UsageFailure(absl::StrCat("--scales-output is ", arguments.scales_output,
                                     "; a container, FILE.gq, has the scales too: give it by "
                                     "--output alone"));
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
    if (Outcome failure =
            is_container ? WriteContainer(arguments, *operand) : WriteArrays(arguments, *operand)) {
      return failure;
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
  AddOutputFile(
      app, "-o,--output", arguments->output,
      "Write it as .npy, whole or not at all; - is standard output. FILE.gq is a container "
      "of a quantized one, with all that scales it");
  AddOutputFile(app, "--scales-output", arguments->scales_output, "Write its scales as .npy");
  app.footer(Footer(kExamples));
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunGet(commands.global, *arguments); };
  });
}

}  // namespace gemmd::cli
