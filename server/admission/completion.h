// The steps between the end of a job and the report to its caller.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/time/clock.h"
#include "kernels/gemm.h"
#include "server/admission/inline_payload.h"
#include "server/admission/memory_bytes.h"
#include "server/admission/ordering.h"
#include "server/admission/resident_operands.h"
#include "server/admission/shared_operands.h"
#include "server/device/device.h"
#include "server/holdings/quotas.h"
#include "server/observe/receipt.h"
#include "server/store/operand_store.h"
#include "server/verification/verifier.h"

namespace gemmd {

// The outcome of an admitted request, as the rpc layer gets it.
struct MatmulOutcome {
  absl::Status status;
  Problem problem;  // of a batch, one of its products
  Receipt receipt;
  // The batch's results laid out as the call says, zeros between its lines; empty unless OK, if
  // kept, and where D went into the client's shared memory.
  HostBuffer d;
  std::string handle;  // of a result that stays
};

// All that an admitted request holds until its end, but for D. Whoever drops it gives it back, the
// last member first: what counts memory goes after the memory.
struct Holdings {
  Hold quota;           // of all but a D that is sent back, which has its own
  Hold charge;          // of all but D, whose pieces have theirs
  HostBuffers buffers;  // of the work
  // The work's planes, where the product is to be verified.
  ResidentPlanes resident;
  SharedOperands shared;
  SharedOperands::Placed placed;
  ResidentOperands residents;
  std::vector<HostPiece> memory;
  std::unique_ptr<InlinePayload> payload;

  // The bytes of a plane that came with the request, and that nobody else reads; null: they are
  // used where they are.
  char* OwnMemory(WorkPlane plane) const;
};

// A request from its admission to the report to its caller.
struct Completion {
  using Callback = absl::AnyInvocable<void(MatmulOutcome) &&>;

  // These outlive it.
  const Clock* clock = nullptr;
  OperandStore* store = nullptr;
  Verifier* verifier = nullptr;  // null: nothing is verified, REQUIRES verification_vectors == 0
  Device* device = nullptr;

  TimeNs deadline = kNoDeadline;
  std::string tenant;
  int verification_vectors = 0;
  const Kernel* kernel = nullptr;
  Problem problem;
  Stack stack;
  Ordering ordering;
  Holdings held;
  HostBuffer d;
  std::unique_ptr<PendingResult> kept;  // has D's memory; null: D is not to stay here
  Callback done;
};

// Runs as a Job::Callback. Verifies the product where that was asked for, which delays what follows
// and is done on the verifier's thread; gives the memory back; tells the caller; has a sampled
// product checked. Adds to the statuses of jobs:
//   DATA_LOSS            the product failed its verification
//   DEADLINE_EXCEEDED    the deadline passed meanwhile
//   the errors of SharedOperands::Finish() and ResidualOf()
void Complete(std::unique_ptr<Completion> completion, absl::Status status, Receipt receipt);

}  // namespace gemmd
