#include "client/cli/options.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/failure.h"

namespace gemmd::cli {

const Choices<DataType>& TypeChoices() {
  static const auto& choices = *[] {
    auto* result = new Choices<DataType>;
    for (const DataType type : client::MatrixTypes()) {
      result->emplace_back(std::string(Name(type)), type);
    }
    return result;
  }();
  return choices;
}

const Choices<Order>& OrderChoices() {
  static const auto& choices =
      *new Choices<Order>{{client::OptionName(Name(Order::kRowMajor)), Order::kRowMajor},
                          {client::OptionName(Name(Order::kColumnMajor)), Order::kColumnMajor}};
  return choices;
}

const Choices<Determinism>& DeterminismChoices() {
  static const auto& choices = *new Choices<Determinism>{
      {client::OptionName(Name(Determinism::kBatchInvariant)), Determinism::kBatchInvariant},
      {client::OptionName(Name(Determinism::kFast)), Determinism::kFast}};
  return choices;
}

const Choices<Activation>& ActivationChoices() {
  static const auto& choices = *new Choices<Activation>{
      {client::OptionName(Name(Activation::kNone)), Activation::kNone},
      {client::OptionName(Name(Activation::kRelu)), Activation::kRelu},
      {client::OptionName(Name(Activation::kGeluTanh)), Activation::kGeluTanh},
      {client::OptionName(Name(Activation::kSilu)), Activation::kSilu}};
  return choices;
}

CLI::Validator IsFinite() {
  return CLI::Validator(
      [](const std::string& text) {
        double value = 0;
        return absl::SimpleAtod(text, &value) && std::isfinite(value)
                   ? std::string()
                   : "'" + text + "' is no number, or not a finite one";
      },
      "");
}

CLI::Validator IsDimension() {
  return CLI::Validator(
      [](const std::string& text) {
        std::uint64_t value = 0;
        return absl::SimpleAtoi(text, &value) && value >= 1 && value <= kMaxDimension
                   ? std::string()
                   : absl::StrCat("'", text, "' is no whole number of 1 to ", kMaxDimension);
      },
      "");
}

CLI::Option* AddOutputFile(CLI::App& app, const std::string& name, std::string& target,
                           const std::string& description) {
  const CLI::Validator is_named(
      [](const std::string& path) -> std::string { return path.empty() ? "'' names no file" : ""; },
      "");
  return app.add_option(name, target, description)->type_name("FILE")->check(is_named);
}

CLI::Option* AddDuration(CLI::App& app, const std::string& name, absl::Duration& target,
                         const std::string& description) {
  return app
      .add_option_function<std::string>(
          name,
          [name, &target](const std::string& text) {
            if (!absl::ParseDuration(text, &target) || target <= absl::ZeroDuration()) {
              throw CLI::ValidationError(
                  name, "'" + text + "' is no positive duration such as 10s, 250ms or 1m30s");
            }
          },
          description)
      ->type_name("DURATION");
}

CLI::Option* AddFormatOption(CLI::App& app, const std::string& name, const std::string& value,
                             absl::Status (OperandFormats::*add)(absl::string_view),
                             OperandFormats& formats, const std::string& description) {
  return app
      .add_option_function<std::vector<std::string>>(
          name,
          [name, add, &formats](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              const absl::Status status = (formats.*add)(text);
              if (!status.ok()) throw CLI::ValidationError(name, std::string(status.message()));
            }
          },
          description)
      ->type_name("[OPERAND=]" + value)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Files");
}

void AddLease(CLI::App& app, absl::Duration& lease, bool& given) {
  app.add_option_function<std::string>(
         "--lease",
         [&lease, &given](const std::string& text) {
           given = true;
           if (!absl::ParseDuration(text, &lease) || lease < absl::ZeroDuration()) {
             throw CLI::ValidationError("--lease",
                                        "'" + text + "' is no duration such as 10m, 2h or 0");
           }
         },
         "Safe from eviction for so long after each use; 0: not at all")
      ->type_name("DURATION");
}

std::string Footer(absl::string_view examples) {
  return absl::StrCat(
      "Every command also takes the options of gemm itself (gemm --help).\n\nExamples:\n", examples,
      "\n", ExitCodesHelp());
}

}  // namespace gemmd::cli
