#include "client/cli/files/quantize_options.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/numbers/quant/quant_format.h"
#include "client/cli/files/weights_source.h"
#include "client/cli/options.h"
#include "client/names.h"
#include "client/quantized/quantized_file.h"

namespace gemmd::cli {
namespace {

Outcome ReadContainerFile(const std::string& path, std::optional<client::QuantizedArray>& array) {
  absl::StatusOr<client::QuantizedArray> read = client::ReadQuantizedFile(path);
  if (!read.ok()) return FileFailure(read.status());
  array = *std::move(read);
  return std::nullopt;
}

// A matrix of that type, where one that is quantized already is wanted.
Failure PlainFailure(const std::string& path, DataType type) {
  if (type == DataType::kF32 || type == DataType::kF16 || type == DataType::kBf16) {
    return UsageFailure(absl::StrCat("--as is required: ", path, " is ", Name(type),
                                     "; add --as FORMAT, such as int4-g128-f16, and --k-axis 1 "
                                     "where K is its columns, as in files of weights"));
  }
  return UsageFailure(absl::StrCat(path, " is ", Name(type),
                                   " without scales, and a container has some; gemm put takes it "
                                   "as it is"));
}

}  // namespace

void AddQuantizeChoices(CLI::App& app, QuantizeChoices& choices, const std::string& group) {
  CLI::Option* const rule =
      AddChoice(app, "--scale-rule",
                Choices<ScaleRule>{{"floor", ScaleRule::kFloor},
                                   {"round-up", ScaleRule::kRoundUp},
                                   {"full-range", ScaleRule::kFullRange}},
                choices.scale_rule,
                "How scales are chosen. Of mx formats floor is OCP's rule and may saturate, and "
                "round-up never does. Of int8, int4 and iq4-nl without zero points "
                "full-range uses their lowest value too, with scales of either sign")
          ->default_str("floor");
  CLI::Option* const stochastic =
      app.add_option_function<std::uint64_t>(
             "--stochastic", [&choices](std::uint64_t seed) { choices.seed = seed; },
             "Round elements up or down at random, by this seed, instead of to nearest")
          ->type_name("SEED");
  if (group.empty()) return;
  rule->group(group);
  stochastic->group(group);
}

CLI::Option* AddQuantFormat(CLI::App& app, const std::string& name, std::string& format,
                            const std::string& description) {
  return app
      .add_option_function<std::string>(
          name,
          [name, &format](const std::string& text) {
            format = client::OptionName(text);
            if (FindQuantFormat(format) != nullptr) return;
            throw CLI::ValidationError(name, client::UnknownFormat(format));
          },
          description)
      ->type_name("FORMAT");
}

CLI::Option* AddKAxis(CLI::App& app, client::KAxis& k_axis) {
  return AddChoice(
             app, "--k-axis",
             Choices<client::KAxis>{{"0", client::KAxis::kRows}, {"1", client::KAxis::kColumns}},
             k_axis,
             "The dimension that is summed over, along which blocks run: 0 of B, K x N; 1 "
             "of A, M x K, and of B that is stored N x K for --transpose-b")
      ->default_str("0");
}

Outcome RequestFor(const QuantizeAsked& asked, const OperandFormats& formats,
                   const std::string& operand, const std::string& path,
                   client::QuantizeRequest& request) {
  if (formats.Format(operand)) {
    return UsageFailure(absl::StrCat(asked.option, ": --type says that ", path,
                                     " is quantized already; drop one of both"));
  }
  if (IsContainer(formats, operand, path)) {
    return UsageFailure(absl::StrCat(asked.option, ": ", path, " is quantized already"));
  }
  request.format = asked.format;
  request.k_axis = asked.k_axis;
  request.is_tiled = formats.IsTiled(operand);
  request.options.scale_rule = asked.choices.scale_rule;
  if (asked.choices.seed) request.options.rounding = {true, *asked.choices.seed};
  if (absl::Status good = Check(request); !good.ok()) {
    return UsageFailure(absl::StrCat(asked.option, ": ", good.message()));
  }
  return std::nullopt;
}

Outcome QuantizeFile(const QuantizeAsked& asked, const OperandFormats& formats,
                     const std::string& operand, const std::string& path,
                     std::optional<client::Matrix>& real,
                     std::optional<client::QuantizedArray>& array) {
  client::QuantizeRequest request;
  if (Outcome failure = RequestFor(asked, formats, operand, path, request)) return failure;
  if (Outcome failure = formats.Read(operand, path, real)) return failure;
  absl::StatusOr<client::QuantizedArray> made = client::QuantizeMatrix(real->view(), request);
  if (!made.ok()) {
    return FileFailure(absl::InvalidArgumentError(
        absl::StrCat(path, ": ", asked.option, " ", asked.format, ": ", made.status().message())));
  }
  array = *std::move(made);
  return std::nullopt;
}

bool IsContainer(const OperandFormats& formats, const std::string& operand,
                 const std::string& path) {
  if (formats.IsRaw(operand)) return false;
  if (const auto weights = FindWeights(path)) return IsQuantized(*weights);
  return client::IsQuantizedFile(path);
}

Outcome ReadOwnForm(const std::string& path, std::optional<client::QuantizedArray>& array) {
  if (const auto weights = FindWeights(path)) {
    std::optional<client::WeightOperand> tensor;
    if (Outcome failure = ReadWeight(*weights, tensor)) return failure;
    auto* const found = std::get_if<client::QuantizedArray>(&*tensor);
    if (found == nullptr) {
      return PlainFailure(path, std::get<client::Matrix>(*tensor).format().type);
    }
    array = std::move(*found);
    return std::nullopt;
  }
  if (client::IsQuantizedFile(path)) return ReadContainerFile(path, array);
  return UsageFailure(absl::StrCat(
      "--as is required: ", path,
      " is no tensor that is quantized already, and no container; add --as FORMAT, such as "
      "int4-g128-f16, and --k-axis 1 where K is its columns"));
}

Outcome ReadContainer(const OperandFormats& formats, const std::string& operand,
                      const std::string& path, std::optional<client::QuantizedArray>& array) {
  if (formats.HasOwn(operand)) {
    return UsageFailure(absl::StrCat(path, " says its type and scale layout itself; drop --type ",
                                     operand, "=... and the like"));
  }
  if (const auto weights = FindWeights(path)) {
    std::optional<client::WeightOperand> tensor;
    if (Outcome failure = ReadWeight(*weights, tensor)) return failure;
    array = std::get<client::QuantizedArray>(*std::move(tensor));
    return std::nullopt;
  }
  return ReadContainerFile(path, array);
}

}  // namespace gemmd::cli
