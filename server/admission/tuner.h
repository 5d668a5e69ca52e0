// Measures plans where requests are served: each launch is a job in the device's own queue.
// Operands and results are counted as a request's are, so that neither takes the other's memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "kernels/gemm.h"
#include "server/admission/admission.h"
#include "server/scheduling/router.h"

namespace gemmd {

struct TuningRequest {
  std::vector<Problem> problems;  // as ValidateHeader() made them; no C, bias or scales
  int repeats = 5;                // launches of each plan that count, after one that does not
  std::string tenant;             // whose turns they take
};

// One plan of one kernel.
struct TunedCandidate {
  std::string kernel;
  std::string plan;        // empty where none was made
  double measured_us = 0;  // median of the compute stage; 0 where rejected
  bool chosen = false;
  std::string rejection;  // empty where measured
};

struct TuningReport {
  std::string device;
  std::vector<std::vector<TunedCandidate>> problems;  // in the order of the request
};

// Thread-safe. Measures for the router's first device, as explanations are made for it: a
// node's devices are alike, and plans are kept by device model.
class Tuner {
 public:
  using Callback = absl::AnyInvocable<void(absl::StatusOr<TuningReport>) &&>;

  struct Sources {
    const Registry* registry = nullptr;
    const Router* router = nullptr;
    Admission* admission = nullptr;  // gives jobs their identities
    PlanCache* plans = nullptr;      // where the best plans go, as each problem ends
    std::string plan_cache_file;     // written after each tuning; empty: none
  };

  // All pointers outlive the tuner.
  explicit Tuner(Sources sources) : sources_(std::move(sources)) {}
  // Cancels what runs, and waits for its callback.
  ~Tuner();

  // Since the start.
  struct Counts {
    std::uint64_t finished = 0;        // tunings that ended with a report
    std::uint64_t failed = 0;          // tunings that ended early
    std::uint64_t measured_plans = 0;  // of reports
    std::uint64_t rejected_plans = 0;  // of reports: not measured, for the reason that they tell
    bool is_running = false;
  };
  Counts counts() const;

  // A new identity for a tuning, to cancel it by.
  std::uint64_t NextId() { return sources_.admission->NextRequestId(); }

  // OK: tuning began on a thread of its own, and `done` is called there exactly once. One
  // job is in flight at a time. RESOURCE_EXHAUSTED: another tuning runs; it is not queued,
  // because how long it will take is unknown.
  //
  // `done` gets the report, or why tuning ended early (plans of the problems before stay):
  //   CANCELLED            Cancel() came
  //   UNAVAILABLE          draining
  //   RESOURCE_EXHAUSTED   queue, memory or plan cache are full
  //   FAILED_PRECONDITION  the file could not be written; the plans serve all the same
  // A plan that fails on the device is rejected in the report, and tuning goes on.
  absl::Status Start(std::uint64_t id, TuningRequest request, Callback done);

  // Ends the tuning of that id before its next launch, or does nothing.
  void Cancel(std::uint64_t id);

 private:
  struct Operands;

  absl::StatusOr<TuningReport> Run(const TuningRequest& request);
  absl::StatusOr<std::vector<TunedCandidate>> TuneProblem(const TuningRequest& request,
                                                          const Problem& problem);
  // Median of the compute stage in microseconds.
  absl::StatusOr<double> Measure(const TuningRequest& request, const Problem& problem,
                                 const Plan& plan, const Operands& operands);
  // As a request of the tenant's at low priority: it takes the tenant's turns, and goes in slices
  // where it is long, so that others wait for a slice of it at most.
  absl::StatusOr<double> LaunchOnce(const std::string& tenant, const Problem& problem,
                                    const Plan& plan, const Operands& operands);
  absl::Status Save() const;
  void CountLocked(const absl::StatusOr<TuningReport>& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const ServedDevice& served() const { return sources_.router->devices().front(); }

  const Sources sources_;
  std::atomic<bool> cancelled_{false};
  mutable Mutex mutex_;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);  // of the last tuning
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  Counts counts_ ABSL_GUARDED_BY(mutex_);  // but for is_running
  std::uint64_t running_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd
