// gemm weights: the tensors of a file of weights, and the form that each has here.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/weights_source.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/table.h"
#include "client/weights/weight_file.h"
#include "client/weights/weight_form.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm weights model.safetensors
  gemm weights model.safetensors.index.json --prefix model.layers.0.
  gemm weights model.gguf --check
  gemm put model.gguf:blk.0.ffn_up.weight
  gemm put model.gguf:blk.0.ffn_up_exps.weight[3]     # of a stack of matrices, the fourth
)";

struct WeightsArguments {
  std::string file;
  std::string prefix;
  bool check = false;
};

// A tensor's form, or why it has none; with --check its blocks are read too.
absl::StatusOr<client::WeightForm> FormHere(const client::WeightTensor& tensor, bool check) {
  absl::StatusOr<client::WeightForm> form = FormOf(tensor);
  if (!form.ok() || !check) return form;
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(form->parts, 1); ++i) {
    const absl::StatusOr<client::WeightOperand> operand =
        OperandOf(form->parts == 0 ? tensor : MatrixOf(tensor, i));
    if (!operand.ok() && form->parts == 0) return operand.status();
    if (!operand.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("of its matrix ", i, ", ", operand.status().message()));
    }
  }
  return form;
}

nlohmann::ordered_json ToJson(const client::WeightTensor& tensor,
                              const absl::StatusOr<client::WeightForm>& form) {
  nlohmann::ordered_json json = {{"name", tensor.name},
                                 {"shape", tensor.shape},
                                 {"type", tensor.type},
                                 {"file_bytes", FileBytes(tensor)}};
  if (form.ok()) {
    json["form"] = form->name;
    if (form->parts != 0) json["matrices"] = form->parts;
    json["size_bytes"] = form->size_bytes;
  } else {
    json["refused"] = std::string(form.status().message());
  }
  return json;
}

Outcome RunWeights(const GlobalOptions& global, const WeightsArguments& arguments) {
  std::shared_ptr<const client::WeightFile> file;
  if (Outcome failure = OpenWeights(arguments.file, file)) return failure;
  if (file->is_container()) {
    return FileFailure(absl::InvalidArgumentError(
        absl::StrCat(arguments.file,
                     ": gemm quantize wrote it: it is one matrix, which gemm put and gemm matmul "
                     "take as it is")));
  }
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  Table table(
      {{"NAME"}, {"SHAPE"}, {"TYPE"}, {"FORM"}, {"BYTES", Table::Align::kRight}, {"REFUSED"}});
  std::size_t listed = 0;
  std::size_t with_form = 0;
  std::uint64_t bytes = 0;
  for (const client::WeightTensor& tensor : file->tensors()) {
    if (!absl::StartsWith(tensor.name, arguments.prefix)) continue;
    const absl::StatusOr<client::WeightForm> form = FormHere(tensor, arguments.check);
    ++listed;
    if (form.ok()) {
      ++with_form;
      bytes += form->size_bytes;
    }
    if (global.json) {
      tensors.push_back(ToJson(tensor, form));
      continue;
    }
    table.AddRow({Shown(tensor.name), client::ShapeText(tensor.shape), tensor.type,
                  form.ok() ? form->name : "-", form.ok() ? absl::StrCat(form->size_bytes) : "-",
                  form.ok() ? "" : std::string(form.status().message())});
  }
  if (global.json) {
    const nlohmann::ordered_json json = {{"kind", client::Name(file->kind()).data()},
                                         {"tensors", tensors}};
    // A tensor's name may be any bytes.
    std::cout << json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << "\n";
    return std::nullopt;
  }
  std::cout << table.Render() << client::Name(file->kind()) << ": " << listed
            << (listed == 1 ? " tensor, " : " tensors, ") << with_form << " with a form here, of "
            << HumanBytes(bytes) << "\n";
  return std::nullopt;
}

}  // namespace

void AddWeightsCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand("weights",
                                               "List the tensors of a safetensors, GGUF, .npz or "
                                               "ONNX file, and the form that each has here");
  const auto arguments = std::make_shared<WeightsArguments>();
  app.add_option(
         "file", arguments->file,
         "A .safetensors file, the .index.json of several, a .gguf, .npz or .onnx file; - is "
         "standard input")
      ->required()
      ->type_name("FILE");
  app.add_option("--prefix", arguments->prefix, "Only tensors whose names begin so")
      ->type_name("TEXT");
  app.add_flag("--check", arguments->check,
               "Also read the tensors: a block without a form, as of a NaN scale, refuses its own");
  app.footer(Footer(kExamples));
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunWeights(commands.global, *arguments); };
  });
}

}  // namespace gemmd::cli
