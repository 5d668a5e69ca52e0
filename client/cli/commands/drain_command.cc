// gemm drain: ends a server, which finishes first what it has.
#include <algorithm>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/message_format.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm --server gpu-1:50051 --token-file operator.token drain
  gemm --server gpu-1:50051 --token-file operator.token drain --wait 2m
)";

// Returns once nobody answers there any more, or the time is over.
Outcome AwaitEnd(GlobalOptions global, absl::Duration wait) {
  constexpr absl::Duration kPeriod = absl::Milliseconds(100);
  const absl::Time end = absl::Now() + wait;
  global.patience = absl::ZeroDuration();
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  while (true) {
    const auto health = connection->Health("", CallWithin(std::max(end - absl::Now(), kPeriod)));
    if (absl::IsUnavailable(health.status())) return std::nullopt;
    if (absl::Now() + kPeriod >= end) {
      return ServerFailure(global.server,
                           absl::DeadlineExceededError(absl::StrCat(
                               "it has not ended within --wait, ", absl::FormatDuration(wait))));
    }
    absl::SleepFor(kPeriod);
  }
}

Outcome RunDrain(const GlobalOptions& global, absl::Duration wait) {
  if (Outcome failure = WantOneServer(global, "drain")) return failure;
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  const auto begun = connection->Drain(CallWithin(global.timeout));
  if (!begun.ok()) return ServerFailure(global.server, begun.status());
  if (global.json) {
    std::cout << ToJson(*begun).dump() << "\n" << std::flush;
  } else {
    std::cout << global.server << " drains: " << begun->requests() << " requests and "
              << begun->uploads() << " uploads are to end\n"
              << std::flush;
  }
  return wait == absl::ZeroDuration() ? std::nullopt : AwaitEnd(global, wait);
}

}  // namespace

void AddDrainCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand(
      "drain", "End the server, which finishes first what it has; for operators");
  const auto wait = std::make_shared<absl::Duration>(absl::ZeroDuration());
  AddDuration(app, "--wait", *wait, "Wait so long for its end; without it, for nothing");
  app.footer(Footer(kExamples));
  app.callback([&commands, wait] {
    commands.selected = [&commands, wait] { return RunDrain(commands.global, *wait); };
  });
}

}  // namespace gemmd::cli
