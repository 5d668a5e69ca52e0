// The things that every subcommand gives to app.cc.
#pragma once

#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/connection.h"
#include "client/cli/failure.h"

namespace gemmd::cli {

// Runs the command whose options have been parsed.
using Action = std::function<Outcome()>;

// Where a subcommand puts its action when the command line names it. All references
// that Add…Command functions take outlive the action.
struct Commands {
  CLI::App& app;
  const GlobalOptions& global;
  const std::string line;  // as it was typed, for reports
  Action selected;
};

void AddMatmulCommand(Commands& commands);
void AddInfoCommand(Commands& commands);
void AddHealthCommand(Commands& commands);
void AddDrainCommand(Commands& commands);
void AddServersCommand(Commands& commands);
void AddStatsCommand(Commands& commands);
void AddTopCommand(Commands& commands);
void AddTraceCommand(Commands& commands);
void AddKernelsCommand(Commands& commands);
void AddEstimateCommand(Commands& commands);
void AddTuneCommand(Commands& commands);
void AddBenchCommand(Commands& commands);
void AddQuantizeCommand(Commands& commands);
void AddWeightsCommand(Commands& commands);
void AddPutCommand(Commands& commands);
void AddGetCommand(Commands& commands);
void AddLsCommand(Commands& commands);
void AddNameCommand(Commands& commands);
void AddRmCommand(Commands& commands);
void AddCompletionCommand(Commands& commands);

}  // namespace gemmd::cli
