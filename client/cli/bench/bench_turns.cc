#include "client/cli/bench/bench_turns.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/time/units.h"
#include "client/cli/bench/bench_target.h"
#include "client/load/report/diff.h"
#include "client/load/results/turns.h"

namespace gemmd::cli {
namespace {

// The warm-up as it was asked for is each server's first alone; later turns need less of it.
constexpr load::TimeNs kLaterWarmUpNs = kSecond / 5;

// Tells a server from those before it at the same address, which it may be compared with to see
// what differs by chance: a file and a report have one place for each name.
std::string NameAmong(const std::vector<BenchTarget>& targets, const std::string& address) {
  const auto is_taken = [&targets](const std::string& name) {
    return std::any_of(targets.begin(), targets.end(),
                       [&name](const BenchTarget& each) { return each.server == name; });
  };
  std::string name = address;
  for (int turn = 2; is_taken(name); ++turn) name = absl::StrCat(address, "#", turn);
  return name;
}

Outcome MakeTargets(const GlobalOptions& global, const BenchArguments& arguments,
                    load::Json& report, std::vector<BenchTarget>& targets) {
  std::vector<std::string> servers = {global.server};
  servers.insert(servers.end(), arguments.against.begin(), arguments.against.end());
  load::Json described = load::Json::array();
  for (const std::string& server : servers) {
    GlobalOptions one = global;
    one.server = server;
    for (const load::Protocol protocol : arguments.protocols) {
      BenchTarget target;
      const bool is_plain = arguments.protocols.size() == 1 || protocol == load::Protocol::kGemmd;
      target.server =
          NameAmong(targets, is_plain ? server : absl::StrCat(server, " ", load::Name(protocol)));
      if (Outcome failure = MakeMatmulTarget(one, arguments, protocol, report, target)) {
        return failure;
      }
      targets.push_back(std::move(target));
      described.push_back(std::exchange(report["server"], nullptr));
    }
  }
  report["server"] = described[0];
  report["servers"] = std::move(described);
  return std::nullopt;
}

// The points of one load, in the order of the targets.
Outcome MeasureRounds(load::LoadOptions options, int rounds, std::vector<BenchTarget>& targets,
                      BenchProgress& progress, std::vector<Measured>& measured) {
  std::vector<std::vector<load::LoadRun>> runs(targets.size());
  for (int round = 0; round == 0 || (round < rounds && !WasInterrupted()); ++round) {
    for (std::size_t turn = 0; turn < targets.size(); ++turn) {
      const std::size_t i = round % 2 == 0 ? turn : targets.size() - 1 - turn;
      load::LoadRun& run = runs[i].emplace_back();
      const std::string name = absl::StrCat(NameOf(options), " on ", targets[i].server, ", round ",
                                            round + 1, " of ", rounds, ",");
      if (Outcome failure = targets[i].Run(options, name, progress, run)) return failure;
    }
    options.warm_up_ns = std::min(options.warm_up_ns, kLaterWarmUpNs);
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Measured& of_target = measured.emplace_back();
    of_target.run = load::Join(std::move(runs[i]));
    targets[i].Describe(options, of_target);
  }
  return std::nullopt;
}

}  // namespace

Outcome MeasureByTurns(const GlobalOptions& global, const BenchArguments& arguments,
                       BenchProgress& progress, BenchRecord& record, load::Json& report) {
  std::vector<load::LoadOptions> loads;
  if (Outcome failure = MakeLoads(arguments, loads)) return failure;
  std::vector<BenchTarget> targets;
  if (Outcome failure = MakeTargets(global, arguments, report, targets)) return failure;
  constexpr int kRounds = 10;
  const int rounds = arguments.rounds.value_or(kRounds);
  report["options"]["rounds"] = rounds;
  load::Json comparisons = load::Json::array();
  for (load::LoadOptions& options : loads) {
    if (WasInterrupted()) break;
    // A replay ends by itself.
    if (!options.duration_ns && arguments.replay.empty()) {
      options.duration_ns = options.stability.window_ns;
    }
    std::vector<Measured> measured;
    if (Outcome failure = MeasureRounds(options, rounds, targets, progress, measured)) {
      return failure;
    }
    for (std::size_t i = 1; i < targets.size(); ++i) {
      comparisons.push_back({{"before", targets[0].server},
                             {"after", targets[i].server},
                             {"changes", load::ChangesJson(load::ComparePoints(
                                             measured[0].point, measured[i].point, true))}});
    }
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (Outcome failure = record.Keep(targets[i], std::move(measured[i]), report)) return failure;
    }
  }
  report["comparisons"] = std::move(comparisons);
  return std::nullopt;
}

}  // namespace gemmd::cli
