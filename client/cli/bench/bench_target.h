// The server that a load is put on, and the measurement of one load.
#pragma once

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/bench/bench_options.h"
#include "client/cli/bench/bench_progress.h"
#include "client/cli/bench/echo_process.h"
#include "client/cli/connection.h"
#include "client/cli/failure.h"
#include "client/load/report/report.h"
#include "client/load/transport/echo_transport.h"
#include "client/load/transport/matmul_transport.h"

namespace gemmd::cli {

// While it lives, the first SIGINT makes WasInterrupted() true, and a second one ends the process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ = {};
};

// Returns whether one came while a guard lived.
bool WasInterrupted();

struct Measured {
  load::LoadRun run;
  load::Summary summary;
  load::Json point;
};

// Everything that measuring one load needs, whatever carries it.
struct BenchTarget {
  std::unique_ptr<load::Transport> owned;
  load::MatmulTransport* matmul = nullptr;  // null for echoes
  std::string server;                       // its name, where there are turns; else empty
  std::vector<double> weights;
  std::vector<load::EntryCost> costs;
  std::vector<std::string> names;

  // Puts the load on it, and shows progress under `name`.
  Outcome Run(const load::LoadOptions& options, const std::string& name, BenchProgress& progress,
              load::LoadRun& run) const;
  // Computes all the figures of a run. Takes what the transport found since the last call.
  void Describe(const load::LoadOptions& options, Measured& measured) const;
  Outcome Measure(const load::LoadOptions& options, const std::string& name,
                  BenchProgress& progress, Measured& measured) const;
};

// "concurrency 8", "rate 100".
std::string NameOf(const load::LoadOptions& options);

// Adds server and workload to the report.
Outcome MakeMatmulTarget(const GlobalOptions& global, const BenchArguments& arguments,
                         load::Protocol protocol, load::Json& report, BenchTarget& target);

// With TLS where the server is called with TLS: what that costs is gRPC's.
Outcome MakeEchoTarget(const GlobalOptions& global, const BenchArguments& arguments,
                       const std::vector<load::EchoSizes>& sizes, EchoProcess& process,
                       BenchTarget& target);

}  // namespace gemmd::cli
