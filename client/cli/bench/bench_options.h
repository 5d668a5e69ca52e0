// The options of `gemm bench` as values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"
#include "client/cli/failure.h"
#include "client/load/load_generator.h"
#include "client/load/report/conditions.h"
#include "client/load/results/slo.h"
#include "client/load/transport/protocol.h"
#include "client/load/workload.h"

namespace gemmd::cli {

struct BenchArguments {
  // Load.
  std::vector<int> concurrencies;
  std::vector<double> rates;
  load::ArrivalKind arrivals = load::ArrivalKind::kPoisson;
  std::string replay;
  int channels = 4;
  int streams = 1;
  int max_in_flight = 10000;
  int senders = 1;
  std::uint64_t seed = 1;

  // Workload: a file, or shapes that share the rest.
  std::string workload;
  std::vector<std::string> shapes;
  load::RequestSpec shared;

  // Measurement.
  absl::Duration warm_up = absl::Seconds(1);
  absl::Duration duration;  // zero: until stable
  absl::Duration window = absl::Seconds(1);
  double stability_percent = 10;
  int max_windows = 30;
  double verify_fraction = 0;

  // More than one take turns.
  std::vector<load::Protocol> protocols = {load::Protocol::kGemmd};
  // Other servers, which take turns with --server.
  std::vector<std::string> against;
  std::optional<int> rounds;  // 10 unless given

  // Further measurements.
  bool find_knee = false;
  std::string slo;
  bool ceiling = false;
  bool blas = false;
  std::uint64_t null_bytes = 0;  // 0: a gemmd server
  absl::Duration null_work;      // of its echo, before each answer

  std::vector<std::string> fail_on;

  // Output.
  bool explain = false;
  bool csv = false;
  bool quiet = false;
  std::string save;
  std::string html;
  std::string samples;
  std::string histogram;

  bool searches() const { return find_knee || !slo.empty(); }
  bool takes_turns() const { return !against.empty() || protocols.size() > 1; }
  // More than one load, or more than one side of a comparison.
  bool has_points() const {
    return searches() || takes_turns() || concurrencies.size() + rates.size() > 1;
  }
};

// `arguments` must outlive the parse.
void AddBenchOptions(CLI::App& app, BenchArguments& arguments);

// --fail-on, of gemm bench and of gemm bench diff. `texts` must outlive the parse.
void AddFailOn(CLI::App& app, std::vector<std::string>& texts, const std::string& description);

// `allows_changes` where something is compared.
Outcome ReadConditions(const std::vector<std::string>& texts, bool allows_changes,
                       std::vector<load::Condition>& conditions);

// From --workload's file or the shapes.
Outcome ReadWorkload(const BenchArguments& arguments, load::Workload& workload);

// One for each point of the sweep; concurrency 1 where nothing was asked for. Not for a
// search, whose rates are not known before.
Outcome MakeLoads(const BenchArguments& arguments, std::vector<load::LoadOptions>& loads);

// The part that all loads share: everything but concurrency and arrivals.
load::LoadOptions SharedLoad(const BenchArguments& arguments);

}  // namespace gemmd::cli
