// gemm completion: a script for the shell.
#include <iostream>
#include <memory>
#include <string>

#include "client/cli/commands/command.h"
#include "client/cli/commands/completion_script.h"
#include "client/cli/options.h"

namespace gemmd::cli {
namespace {

enum class Shell { kBash, kZsh };

constexpr char kExamples[] = R"(  source <(gemm completion bash)
  gemm completion zsh > "${fpath[1]}/_gemm"
)";

}  // namespace

void AddCompletionCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand("completion", "Print a shell completion script");
  const auto shell = std::make_shared<Shell>(Shell::kBash);
  AddChoice(app, "SHELL", Choices<Shell>{{"bash", Shell::kBash}, {"zsh", Shell::kZsh}}, *shell,
            "Whose script")
      ->required();
  app.footer(Footer(kExamples));
  app.callback([&commands, shell] {
    commands.selected = [&commands, shell]() -> Outcome {
      std::cout << (*shell == Shell::kBash ? BashCompletion(commands.app)
                                           : ZshCompletion(commands.app));
      return std::nullopt;
    };
  });
}

}  // namespace gemmd::cli
