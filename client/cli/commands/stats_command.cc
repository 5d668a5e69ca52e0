// gemm stats: what the server has done since it started.
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/commands/command.h"
#include "client/cli/options.h"
#include "client/cli/views/holdings_table.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/quota_table.h"
#include "client/cli/views/screen.h"
#include "client/cli/views/table.h"

namespace gemmd::cli {
namespace {

constexpr char kExamples[] = R"(  gemm stats
  gemm stats --json | jq .finished_requests
  gemm stats --watch 500ms --count 2
  gemm stats --holdings
)";

// Empty where nothing came to the queue.
std::string DescribeLaunches(const v1::QueueStatistics& queue) {
  std::vector<std::string> parts;
  const auto append = [&parts](const v1::LaunchStatistics& launches, absl::string_view form) {
    if (launches.launches() == 0) return;
    parts.push_back(absl::StrCat(launches.requests(), " requests ", form, " in ",
                                 launches.launches(), " launches"));
  };
  append(queue.alone(), "alone");
  append(queue.rows(), "as rows");
  append(queue.group(), "in groups");
  append(queue.slices(), "by slices");
  if (parts.empty() && queue.late_in_queue() == 0) return "";
  parts.push_back(absl::StrCat("late: ", queue.late_in_queue(), " in the queue, ",
                               queue.late_on_device(), " on the device"));
  return absl::StrCat(queue.device(), ": ", absl::StrJoin(parts, "; "));
}

std::string Describe(const v1::StatisticsResponse& statistics) {
  Table facts({{}, {}});
  facts.AddRow({"uptime", Human(statistics.uptime())});
  facts.AddRow({"requests", absl::StrCat(statistics.received_requests(), " received, ",
                                         statistics.admitted_requests(), " admitted, ",
                                         statistics.queued_requests(), " queued, ",
                                         statistics.in_flight_requests(), " in flight")});
  // Protocol Buffers' maps have no order of their own.
  const std::map<std::string, std::uint64_t> finished(statistics.finished_requests().begin(),
                                                      statistics.finished_requests().end());
  for (const auto& [code, count] : finished) {
    facts.AddRow({"finished", absl::StrCat(count, " ", code)});
  }
  const std::map<std::string, std::uint64_t> refused(statistics.refused_requests().begin(),
                                                     statistics.refused_requests().end());
  for (const auto& [cause, count] : refused) {
    facts.AddRow({"refused", absl::StrCat(count, " for ", cause)});
  }
  facts.AddRow({"reserved", HumanBytes(statistics.reserved_bytes())});
  if (statistics.allocated_bytes() > 0) {
    facts.AddRow({"allocated", HumanBytes(statistics.allocated_bytes())});
  }
  facts.AddRow({"payload", absl::StrCat(HumanBytes(statistics.payload_bytes_in()), " in, ",
                                        HumanBytes(statistics.payload_bytes_out()), " out")});
  if (statistics.shared_memory().regions() > 0 || statistics.shared_memory().bytes_in() > 0) {
    const v1::SharedMemoryStatistics& shared = statistics.shared_memory();
    facts.AddRow({"shared", absl::StrCat(HumanBytes(shared.bytes_in()), " in, ",
                                         HumanBytes(shared.bytes_out()), " out; ", shared.regions(),
                                         " regions of ", HumanBytes(shared.region_bytes()))});
  }
  if (statistics.has_operands()) {
    const v1::OperandStatistics& operands = statistics.operands();
    facts.AddRow({"resident", absl::StrCat(operands.residents(), " matrices of ",
                                           HumanBytes(operands.resident_bytes()), "; ",
                                           HumanBytes(operands.reserved_bytes()), " of ",
                                           HumanBytes(operands.limit_bytes()), " taken; ",
                                           operands.partial_uploads(), " uploads not ended")});
    facts.AddRow(
        {"their use",
         absl::StrCat(operands.hits(), " hits, ", operands.misses(), " misses, ",
                      operands.evictions(), " evictions; ", HumanBytes(operands.uploaded_bytes()),
                      " uploaded, ", HumanBytes(operands.downloaded_bytes()), " downloaded")});
    if (operands.device_bytes() + operands.landed_bytes() + operands.moved_out_bytes() > 0) {
      facts.AddRow({"on devices",
                    absl::StrCat(HumanBytes(operands.device_bytes()), "; ", operands.landings(),
                                 " landings of ", HumanBytes(operands.landed_bytes()), ", ",
                                 operands.moves_out(), " moved out with ",
                                 HumanBytes(operands.moved_out_bytes()), ", ",
                                 HumanBytes(operands.fetched_bytes()), " fetched")});
    }
    if (operands.copies() + operands.copy_bytes() + operands.copies_without_room() > 0) {
      facts.AddRow(
          {"on several", absl::StrCat(HumanBytes(operands.copy_bytes()), "; ", operands.copies(),
                                      " copies made, ", operands.copies_dropped(), " dropped, ",
                                      operands.copies_without_room(), " found no room")});
    }
  }
  for (const v1::CostStatistics& cost : statistics.costs()) {
    const v1::PredictionError& time = cost.device_time();
    if (time.count() == 0) continue;
    facts.AddRow({"predicted",
                  absl::StrFormat("%s: %s us of %s us measured in %d launches, each off by %.1f %% "
                                  "on average",
                                  cost.device(), Microseconds(time.predicted_us()),
                                  Microseconds(time.measured_us()), time.count(),
                                  100 * time.mean_absolute_relative_error())});
  }
  for (const v1::QueueStatistics& queue : statistics.queues()) {
    const std::string launches = DescribeLaunches(queue);
    if (!launches.empty()) facts.AddRow({"launches", launches});
    if (queue.copied_bytes_in() + queue.copied_bytes_out() > 0) {
      facts.AddRow(
          {"copied", absl::StrCat(queue.device(), ": ", HumanBytes(queue.copied_bytes_in()),
                                  " in, ", HumanBytes(queue.copied_bytes_out()), " out")});
    }
  }
  const v1::VerificationStatistics& verification = statistics.verification();
  if (verification.checked() + verification.dropped() + verification.unverifiable() > 0) {
    facts.AddRow({"verified",
                  absl::StrFormat("%d products, %d of them wrong, worst residual %.3g; %d dropped, "
                                  "%d not verifiable",
                                  verification.checked(), verification.failed(),
                                  verification.worst_residual(), verification.dropped(),
                                  verification.unverifiable())});
  }
  if (statistics.has_quota()) AddQuota(statistics.quota(), &facts);
  facts.AddRow({"work", absl::StrFormat("%.3g GFLOP", statistics.flops() * 1e-9)});

  Table stages({{"stage", Table::Align::kLeft},
                {"count", Table::Align::kRight},
                {"mean us", Table::Align::kRight},
                {"max us", Table::Align::kRight},
                {"sum us", Table::Align::kRight}});
  for (const v1::StageStatistics& stage : statistics.stages()) {
    const double mean_us =
        stage.count() == 0 ? 0 : stage.sum_us() / static_cast<double>(stage.count());
    stages.AddRow({Word(v1::StageName_Name(stage.name())), absl::StrCat(stage.count()),
                   Microseconds(mean_us), Microseconds(stage.max_us()),
                   Microseconds(stage.sum_us())});
  }
  const std::string holdings = DescribeHoldings(statistics.holdings());
  return absl::StrCat(facts.Render(), "\n", stages.Render(), holdings.empty() ? "" : "\n",
                      holdings);
}

struct StatsOptions {
  std::optional<std::string> tenant;
  std::uint32_t holders = 0;
  absl::Duration period = absl::ZeroDuration();  // of --watch; zero: once
  std::uint64_t count = 0;                       // of looks; 0: any number
};

Outcome RunStats(const GlobalOptions& global, const StatsOptions& options) {
  if (Outcome failure = WantOneServer(global, "stats")) return failure;
  std::unique_ptr<client::Client> connection;
  if (Outcome failure = Connect(global, connection)) return failure;
  const bool is_watching = options.period > absl::ZeroDuration();
  std::optional<Screen> screen;  // which takes signals and keys, so only where it is to go on
  if (is_watching && !global.json) screen.emplace();
  v1::StatisticsRequest request;
  if (options.tenant.has_value()) request.set_tenant(*options.tenant);
  request.set_holders(options.holders);
  for (std::uint64_t looks = 1;; ++looks) {
    const auto statistics = connection->Statistics(request, CallWithin(global.timeout));
    if (!statistics.ok()) return ServerFailure(global.server, statistics.status());
    if (global.json) {
      std::cout << ToJson(*statistics).dump() << "\n" << std::flush;
    } else if (screen.has_value()) {
      screen->Show(Describe(*statistics));
    } else {
      std::cout << Describe(*statistics);
    }
    if (!is_watching || looks == options.count || !std::cout.good()) return std::nullopt;
    if (!screen.has_value()) {
      absl::SleepFor(options.period);
      continue;
    }
    const Screen::Event event = screen->Wait(options.period);
    if (event.is_over || event.key == 'q') return std::nullopt;
  }
}

}  // namespace

void AddStatsCommand(Commands& commands) {
  CLI::App& app = *commands.app.add_subcommand("stats", "Show what the server has done so far");
  app.footer(Footer(kExamples));
  const auto options = std::make_shared<StatsOptions>();
  app.add_option("--quota-of", options->tenant,
                 "Show also the quota of this tenant, and what is taken of it; '' means all "
                 "callers that prove no name")
      ->type_name("NAME");
  app.add_option("--holdings", options->holders,
                 "Show also who holds what of all that has a limit: so many tenants and addresses "
                 "that hold most of each quantity; 5 unless given")
      ->expected(0, 1)
      ->default_str("5")
      ->check(CLI::Range(1, 100))
      ->type_name("N");
  CLI::Option* const watch = AddDuration(app, "--watch", options->period,
                                         "Look again and again, so far apart; q or Ctrl-C ends it");
  app.add_option("--count", options->count, "Looks of --watch; any number unless given")
      ->needs(watch)
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  app.callback([&commands, options] {
    commands.selected = [&commands, options] { return RunStats(commands.global, *options); };
  });
}

}  // namespace gemmd::cli
