#include "client/cli/commands/completion_script.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace gemmd::cli {
namespace {

// A command, with the words that may stand after it.
struct Command {
  std::string name;                // empty for the words before any subcommand
  std::vector<std::string> words;  // options, and the values of positionals that have a set
  // Options that take a value, and the values where they are a set.
  std::vector<std::pair<std::string, std::vector<std::string>>> values;
};

// CLI11 keeps a set of values in the option's type name, as "{a,b}".
std::vector<std::string> SetOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  return absl::StrSplit(type.substr(open + 1, close - open - 1), ',');
}

void AddOptions(const CLI::App& app, Command& command) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> set = SetOf(*option);
    if (option->get_positional()) command.words.insert(command.words.end(), set.begin(), set.end());
    std::vector<std::string> names;
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : names) {
      command.words.push_back(name);
      if (option->get_type_size() > 0) command.values.emplace_back(name, set);
    }
  }
}

void RemoveRepeated(std::vector<std::string>& words) {
  std::vector<std::string> once;
  for (std::string& word : words) {
    if (std::find(once.begin(), once.end(), word) == once.end()) once.push_back(std::move(word));
  }
  words = std::move(once);
}

std::vector<Command> Describe(const CLI::App& app) {
  std::vector<Command> commands(1);
  const std::vector<const CLI::App*> subcommands =
      app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* subcommand : subcommands) {
    commands[0].words.push_back(subcommand->get_name());
  }
  AddOptions(app, commands[0]);
  for (const CLI::App* subcommand : subcommands) {
    Command command;
    command.name = subcommand->get_name();
    for (const CLI::App* nested : subcommand->get_subcommands([](const CLI::App* candidate) {
           return !candidate->get_group().empty();  // hidden ones have none
         })) {
      command.words.push_back(nested->get_name());
    }
    AddOptions(*subcommand, command);
    // Global options are taken after a subcommand too; --help is in both.
    AddOptions(app, command);
    RemoveRepeated(command.words);
    commands.push_back(std::move(command));
  }
  return commands;
}

std::string Names(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (!command.name.empty()) names.push_back(command.name);
  }
  return absl::StrJoin(names, "|");
}

// The two `case` statements that both shells have in common: `assign` is a format in which
// $0 stands for the words.
std::string Cases(const std::vector<Command>& commands, absl::string_view previous,
                  absl::string_view assign) {
  const auto assignment = [assign](const std::vector<std::string>& words) {
    return absl::StrReplaceAll(assign, {{"$0", absl::StrJoin(words, " ")}});
  };
  std::string text = "  case \"$command\" in\n";
  for (const Command& command : commands) {
    absl::StrAppend(&text, "    '", command.name, "') ", assignment(command.words), " ;;\n");
  }
  absl::StrAppend(&text, "  esac\n  case \"$command ", previous, "\" in\n");
  for (const Command& command : commands) {
    for (const auto& [option, values] : command.values) {
      absl::StrAppend(&text, "    '", command.name, " ", option, "') ", assignment(values),
                      " ;;\n");
    }
  }
  return text + "  esac\n";
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  const std::vector<Command> commands = Describe(app);
  return absl::StrCat(
      "# Completion for ", app.get_name(), ": source <(", app.get_name(), " completion bash)\n",
      "_gemm() {\n",
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n",
      "  local command='' choices='' word\n",
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n", "    case \"$word\" in\n      ",
      Names(commands), ") command=\"$word\"; break ;;\n", "    esac\n  done\n",
      Cases(commands, "$previous", "choices='$0'"),
      "  COMPREPLY=($(compgen -W \"$choices\" -- \"$current\"))\n", "}\n",
      "# Where no word fits, bash completes file names.\n", "complete -o default -F _gemm ",
      app.get_name(), "\n");
}

std::string ZshCompletion(const CLI::App& app) {
  const std::vector<Command> commands = Describe(app);
  return absl::StrCat("#compdef ", app.get_name(), "\n", "# source <(", app.get_name(),
                      " completion zsh), after compinit\n", "_gemm() {\n",
                      "  local command='' word\n", "  local -a choices\n",
                      "  for word in ${words[2,CURRENT-1]}; do\n", "    case \"$word\" in\n      ",
                      Names(commands), ") command=\"$word\"; break ;;\n", "    esac\n  done\n",
                      Cases(commands, "${words[CURRENT-1]}", "choices=($0)"),
                      "  compadd -a choices\n  [[ ${words[CURRENT]} == -* ]] || _files\n}\n",
                      "compdef _gemm ", app.get_name(), "\n");
}

}  // namespace gemmd::cli
