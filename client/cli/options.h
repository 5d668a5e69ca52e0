// Kinds of options that more than one command has.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/numbers/types.h"
#include "client/cli/files/operand_file.h"
#include "client/names.h"

namespace gemmd::cli {

template <typename Value>
using Choices = std::vector<std::pair<std::string, Value>>;

const Choices<DataType>& TypeChoices();
const Choices<Order>& OrderChoices();
const Choices<Determinism>& DeterminismChoices();
const Choices<Activation>& ActivationChoices();

// An option whose words are in --help and in completions. Hyphens and underscores are
// the same. Target is Value or std::optional<Value>; it must outlive the parse.
template <typename Value, typename Target>
CLI::Option* AddChoice(CLI::App& app, const std::string& name, const Choices<Value>& choices,
                       Target& target, const std::string& description) {
  std::vector<std::string> words;
  for (const auto& choice : choices) words.push_back(choice.first);
  return app
      .add_option_function<std::string>(
          name,
          [name, choices, &target](const std::string& word) {
            for (const auto& choice : choices) {
              if (choice.first == word) {
                target = choice.second;
                return;
              }
            }
            throw CLI::ValidationError(name, "'" + word + "' has no meaning");
          },
          description)
      // transform() and not check(), so that the word arrives as `choices` spells it.
      ->transform(
          CLI::IsMember(words, [](const std::string& word) { return client::OptionName(word); }))
      ->type_name("WORD");
}

// The largest M, N or K that the contract has (RequestLimits in server/admission/validation.h).
inline constexpr std::uint64_t kMaxDimension = 2147483647;

// Checks that name the value and what is accepted; CLI11 puts the option's name before it.
CLI::Validator IsFinite();
CLI::Validator IsDimension();

// A file that the command writes; the empty name is refused before anything is asked for.
CLI::Option* AddOutputFile(CLI::App& app, const std::string& name, std::string& target,
                           const std::string& description);

// "10s", "250ms", "1m30s": positive.
CLI::Option* AddDuration(CLI::App& app, const std::string& name, absl::Duration& target,
                         const std::string& description);

// An option of OperandFormats, which may come several times.
CLI::Option* AddFormatOption(CLI::App& app, const std::string& name, const std::string& value,
                             absl::Status (OperandFormats::*add)(absl::string_view),
                             OperandFormats& formats, const std::string& description);

// --lease; `given` says whether it was. 0 is none.
void AddLease(CLI::App& app, absl::Duration& lease, bool& given);

// Returns the end of --help: the examples, then the exit codes.
std::string Footer(absl::string_view examples);

}  // namespace gemmd::cli
