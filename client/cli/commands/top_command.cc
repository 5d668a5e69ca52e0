// gemm top: what the server does right now, refreshed.
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/screen.h"
#include "client/cli/views/top_view.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm top
  gemm top --interval 500ms --sort requests
)";

constexpr char kKeys[] = "q ends; sort by t time, r requests, f FLOPs, n name";

const Choices<TopOrder>& OrderWords() {
  static const Choices<TopOrder>& words = *new Choices<TopOrder>{{"time", TopOrder::kTime},
                                                                 {"requests", TopOrder::kRequests},
                                                                 {"flops", TopOrder::kFlops},
                                                                 {"name", TopOrder::kName}};
  return words;
}

struct TopOptions {
  absl::Duration interval = absl::Seconds(1);
  TopOrder order = TopOrder::kTime;
};

absl::StatusOr<TopSample> Look(const GlobalOptions& global, client::Client* connection) {
  TopSample sample;
  auto statistics = connection->Statistics({}, CallWithin(global.timeout));
  if (!statistics.ok()) return statistics.status();
  auto info = connection->ServerInfo(CallWithin(global.timeout));
  if (!info.ok()) return info.status();
  sample.statistics = *std::move(statistics);
  sample.info = *std::move(info);
  return sample;
}

// False: the user wants no more.
bool TakeKey(char key, TopOrder* order) {
  switch (key) {
    case 'q':
      return false;
    case 't':
      *order = TopOrder::kTime;
      return true;
    case 'r':
      *order = TopOrder::kRequests;
      return true;
    case 'f':
      *order = TopOrder::kFlops;
      return true;
    case 'n':
      *order = TopOrder::kName;
      return true;
    default:
      return true;
  }
}

Outcome RunTop(const GlobalOptions& global, TopOptions options) {
  if (Outcome failure = WantOneServer(global, "top")) return failure;
  if (global.json) {
    return UsageFailure("top is for people; stats --watch --json has the counters");
  }
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  const Screen screen;
  absl::StatusOr<TopSample> before = Look(global, connection.get());
  if (!before.ok()) return ServerFailure(global.server, before.status());
  while (true) {
    const Screen::Event event = screen.Wait(options.interval);
    if (event.is_over || !TakeKey(event.key, &options.order)) return std::nullopt;
    absl::StatusOr<TopSample> now = Look(global, connection.get());
    if (!now.ok()) return ServerFailure(global.server, now.status());
    if (!screen.is_terminal()) {
      screen.Show(RenderTop(global.server, *before, *now, options.order));
      return std::nullopt;
    }
    const std::size_t rows = screen.rows();
    screen.Show(RenderTop(global.server, *before, *now, options.order, screen.columns(),
                          rows > 2 ? rows - 2 : 0) +
                "\n" + kKeys);
    // A key shows the same stretch in another order; then it grows until the time has passed.
    if (event.key == 0) before = std::move(now);
  }
}

}  // namespace

void AddTopCommand(Commands& commands) {
  CLI::App& app =
      *commands.app.add_subcommand("top", "Show what the server does right now, refreshed");
  app.footer(Footer(kExamples));
  const auto options = std::make_shared<TopOptions>();
  AddDuration(app, "--interval", options->interval,
              "Between two looks; not on a terminal, how long the one that is printed takes");
  AddChoice(app, "--sort", OrderWords(), options->order, "What kernels and tenants are sorted by");
  app.callback([&commands, options] {
    commands.selected = [&commands, options] { return RunTop(commands.global, *options); };
  });
}

}  // namespace gemmd::cli
