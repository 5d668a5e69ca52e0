// gemm quantize: a matrix of real numbers to a container of a quantized format, on this side; and
// one that another program has quantized, to a container of its own form.
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/output_file.h"
#include "client/cli/files/quantize_options.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"
#include "client/quantized/product_error.h"
#include "client/quantized/quantized_file.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm quantize W.npy --as mxfp8-e4m3 -o W.gq
  gemm quantize X.npy --as int8-row --k-axis 1 -o X.gq
  gemm quantize W.npy --as nvfp4 --scale-layout blocked-128x4 -o W.gq
  gemm quantize model.safetensors:fc1.weight --as int4-g128-f16 --k-axis 1 -o fc1.gq
  gemm quantize model.gguf:blk.0.ffn_up.weight -o up.gq     # quantized already: nothing is rounded
  gemm matmul A.npy W.gq -o D.npy
  gemm put W.gq
)";

struct QuantizeArguments {
  std::string file;
  std::string output;
  QuantizeAsked asked;
  OperandFormats formats;
};

std::uint64_t BytesOf(const client::QuantizedArray& array) {
  return array.codes.view().size() + array.scales.view().size() + array.zero_points.view().size() +
         array.offsets.view().size() +
         (array.format.scaling.has_tensor_scale ? sizeof array.tensor_scale : 0);
}

void PrintJson(const std::string& path, const client::QuantizedArray& array, double error) {
  std::cout << nlohmann::ordered_json{{"path", path},
                                      {"format", array.format_name},
                                      {"rows", array.rows},
                                      {"columns", array.columns},
                                      {"k_axis", static_cast<int>(array.k_axis)},
                                      {"bytes", BytesOf(array)},
                                      {"relative_error", error}}
                   .dump()
            << "\n";
}

std::string FormText(const client::QuantizedArray& array) {
  return absl::StrCat(array.format_name, " along axis ", static_cast<int>(array.k_axis), ", ",
                      HumanBytes(BytesOf(array)));
}

// Without --as.
Outcome WriteOwnForm(const GlobalOptions& global, const QuantizeArguments& arguments) {
  if (arguments.asked.choices.are_given()) {
    return UsageFailure("--scale-rule and --stochastic go with --as");
  }
  std::optional<client::QuantizedArray> array;
  if (Outcome failure = ReadOwnForm(arguments.file, array)) return failure;
  const absl::Status written = client::WriteQuantizedFile(PathToWrite(arguments.output), *array);
  if (!written.ok()) return FileFailure(written);
  if (global.json) {
    PrintJson(arguments.output, *array, 0);
    return std::nullopt;
  }
  PrintBeside(absl::StrCat(array->rows, " x ", array->columns, " -> ", arguments.output, ": ",
                           FormText(*array), ", its own form: nothing is rounded\n"),
              {arguments.output});
  return std::nullopt;
}

Outcome RunQuantize(const GlobalOptions& global, const QuantizeArguments& arguments) {
  if (Outcome failure = CheckOutput(arguments.output, global.json)) return failure;
  if (arguments.asked.format.empty()) return WriteOwnForm(global, arguments);
  std::optional<client::Matrix> real;
  std::optional<client::QuantizedArray> array;
  if (Outcome failure =
          QuantizeFile(arguments.asked, arguments.formats, "a", arguments.file, real, array)) {
    return failure;
  }
  const absl::Status written = client::WriteQuantizedFile(PathToWrite(arguments.output), *array);
  if (!written.ok()) return FileFailure(written);

  const absl::StatusOr<client::Matrix> values = client::Dequantize(*array);
  if (!values.ok())
    return Failure{ExitCode::kInternal, arguments.output, std::string(values.status().message()),
                   std::nullopt};
  const auto error = client::CompareProducts(values->view(), real->view());
  if (!error.ok())
    return Failure{ExitCode::kInternal, arguments.output, std::string(error.status().message()),
                   std::nullopt};
  if (global.json) {
    PrintJson(arguments.output, *array, error->relative);
    return std::nullopt;
  }
  PrintBeside(absl::StrCat(client::ToString(real->format()), " -> ", arguments.output, ": ",
                           FormText(*array), " of ", HumanBytes(real->bytes().size()),
                           absl::StrFormat(", relative error %.3g\n", error->relative)),
              {arguments.output});
  return std::nullopt;
}

}  // namespace

void AddQuantizeCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand(
      "quantize", "Quantize a matrix here, into a file for matmul, put and other programs");
  const auto arguments = std::make_shared<QuantizeArguments>();
  arguments->asked.option = "--as";
  app.add_option("file", arguments->file,
                 "A .npy or raw file of f32, f16 or bf16, or a tensor of a file of weights, as "
                 "FILE:NAME; - is standard input")
      ->required()
      ->type_name("FILE");
  CLI::Option* const as = AddQuantFormat(
      app, "--as", arguments->asked.format,
      "The format: int8-g128, fp8-e4m3-1x128, mxfp8-e4m3, nvfp4, int4-g64-f16-zp and so on "
      "(docs/quantization.md). Without it FILE is quantized already, by GGUF, GPTQ, AWQ and so on, "
      "and written in its own form");
  AddOutputFile(app, "-o,--output", arguments->output,
                "Write it there, whole or not at all: safetensors with metadata, usually .gq; - is "
                "standard output")
      ->required();
  AddKAxis(app, arguments->asked.k_axis)->needs(as);
  AddQuantizeChoices(app, arguments->asked.choices, "");
  AddFormatOption(app, "--scale-layout", "LAYOUT", &OperandFormats::AddScaleLayout,
                  arguments->formats,
                  "Of e8m0 and e4m3 scales: plain (unless given) or blocked-128x4, tcgen05's tiles")
      ->needs(as);
  AddFormatOption(app, "--shape", "ROWSxCOLUMNS", &OperandFormats::AddShape, arguments->formats,
                  "The file is raw bytes of this shape")
      ->needs(as);
  AddFormatOption(app, "--type", "TYPE", &OperandFormats::AddType, arguments->formats,
                  "Type of a raw file: f32, f16 or bf16")
      ->needs(as);
  AddFormatOption(app, "--order", "ORDER", &OperandFormats::AddOrder, arguments->formats,
                  "Order of a raw file: row-major (unless given) or column-major")
      ->needs(as);
  app.footer(Footer(kExamples));
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunQuantize(commands.global, *arguments); };
  });
}

}  // namespace gemmd::cli
