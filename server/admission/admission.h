// Says yes or no to a request, and on a yes hands it to the scheduler with everything
// it will need already reserved: a request that was admitted does not run out of memory.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/gemm.h"
#include "server/admission/matmul_call.h"
#include "server/admission/validation.h"
#include "server/device/device.h"
#include "server/observe/clock.h"
#include "server/observe/statistics.h"
#include "server/scheduling/router.h"

namespace gemmd {

// A decoded request and where its result goes.
struct MatmulJob {
  MatmulCall call;
  TimeNs arrival = 0;
  TimeNs deadline = kNoDeadline;
  StageSpan decode;  // how long decoding took
};

// What the rpc layer is told at the end of an admitted request.
struct MatmulOutcome {
  absl::Status status;
  Problem problem;
  Receipt receipt;
  HostBuffer d;  // problem.d laid out, zeros between its lines; empty unless OK
};

// Thread-safe. All that is passed to the constructor outlives the admission.
class Admission {
 public:
  using Callback = absl::AnyInvocable<void(MatmulOutcome) &&>;

  // `plans`: what was measured, which goes before predictions; null: nothing was.
  Admission(const RequestLimits& limits, const Registry* registry, const Router* router,
            Statistics* statistics, const Clock* clock, const PlanCache* plans = nullptr);

  // A new identity for a request, to cancel it by.
  std::uint64_t NextRequestId() { return next_request_id_.fetch_add(1); }

  // OK: admitted, and `done` is called exactly once, perhaps before this returns.
  // The call's payload stays valid until then.
  //
  // In this order:
  //   UNAVAILABLE          draining
  //   INVALID_ARGUMENT, UNIMPLEMENTED   see validation.h
  //   FAILED_PRECONDITION  no kernel takes the problem
  //   INVALID_ARGUMENT     more bytes than the device has when it is empty
  //   DEADLINE_EXCEEDED    passed, or sooner than the predicted time of the launch alone
  //   RESOURCE_EXHAUSTED   memory or queue are full now; carries RetryAfterMs()
  absl::Status Submit(std::uint64_t request_id, const MatmulJob& request, Callback done);

  // See Scheduler::Cancel.
  void Cancel(std::uint64_t request_id) { router_->Cancel(request_id); }

  const RequestLimits& limits() const { return limits_; }

 private:
  // A device that will serve a request, with all that it needs held.
  struct Grant {
    ServedDevice served;
    Plan plan;
    MemoryReservation reservation;
    HostBuffer d;
  };

  // The first device, by preference, that has room; else what the most preferred one said.
  absl::StatusOr<Grant> FindRoom(const Problem& problem, const MatmulJob& request) const;
  absl::StatusOr<Grant> TryDevice(const ServedDevice& served, const Problem& problem,
                                  const MatmulJob& request) const;
  absl::Status CheckDeadline(TimeNs deadline, double predicted_us) const;
  static absl::Status FullNow(const Scheduler& scheduler, absl::Status status);

  const RequestLimits limits_;
  const Registry* const registry_;
  const Router* const router_;
  Statistics* const statistics_;
  const Clock* const clock_;
  const PlanCache* const plans_;
  std::atomic<std::uint64_t> next_request_id_{1};
};

}  // namespace gemmd
