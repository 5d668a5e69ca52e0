// gemm quantize: a matrix of real numbers to a container of a quantized format, on this side.
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

Outcome RunQuantize(const GlobalOptions& global, const QuantizeArguments& arguments) {
  if (Outcome failure = CheckOutput(arguments.output, global.json)) return failure;
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
    std::cout << nlohmann::ordered_json{{"path", arguments.output},
                                        {"format", array->format_name},
                                        {"rows", array->rows},
                                        {"columns", array->columns},
                                        {"k_axis", static_cast<int>(array->k_axis)},
                                        {"bytes", BytesOf(*array)},
                                        {"relative_error", error->relative}}
                     .dump()
              << "\n";
    return std::nullopt;
  }
  PrintBeside(
      absl::StrCat(client::ToString(real->format()), " -> ", arguments.output, ": ",
                   array->format_name, " along axis ", static_cast<int>(array->k_axis), ", ",
                   HumanBytes(BytesOf(*array)), " of ", HumanBytes(real->bytes().size()),
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
                 "A .npy or raw file of f32, f16 or bf16, or a tensor of safetensors or GGUF, as "
                 "FILE:NAME; - is standard input")
      ->required()
      ->type_name("FILE");
  AddQuantFormat(app, "--as", arguments->asked.format,
                 "The format: int8-g128, fp8-e4m3-1x128, mxfp8-e4m3, nvfp4, int4-g64-f16-zp and so "
                 "on (docs/quantization.md)")
      ->required();
  AddOutputFile(app, "-o,--output", arguments->output,
                "Write it there, whole or not at all: safetensors with metadata, usually .gq; - is "
                "standard output")
      ->required();
  AddKAxis(app, arguments->asked.k_axis);
  AddQuantizeChoices(app, arguments->asked.choices, "");
  AddFormatOption(
      app, "--scale-layout", "LAYOUT", &OperandFormats::AddScaleLayout, arguments->formats,
      "Of e8m0 and e4m3 scales: plain (unless given) or blocked-128x4, tcgen05's tiles");
  AddFormatOption(app, "--shape", "ROWSxCOLUMNS", &OperandFormats::AddShape, arguments->formats,
                  "The file is raw bytes of this shape");
  AddFormatOption(app, "--type", "TYPE", &OperandFormats::AddType, arguments->formats,
                  "Type of a raw file: f32, f16 or bf16");
  AddFormatOption(app, "--order", "ORDER", &OperandFormats::AddOrder, arguments->formats,
                  "Order of a raw file: row-major (unless given) or column-major");
  app.footer(Footer(kExamples));
  app.callback([&commands, arguments] {
    commands.selected = [&commands, arguments] { return RunQuantize(commands.global, *arguments); };
  });
}

}  // namespace gemmd::cli
