// Says yes or no to a request, and on a yes hands it to the scheduler with everything
// it will need already reserved: a request that was admitted does not run out of memory.
//
// admission_room.cc chooses device and plan and takes that memory, admission.cc does all else.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time/clock.h"
#include "kernels/gemm.h"
#include "server/admission/completion.h"
#include "server/admission/inline_payload.h"
#include "server/admission/matmul_call.h"
#include "server/admission/memory_bytes.h"
#include "server/admission/resident_operands.h"
#include "server/admission/shared_operands.h"
#include "server/admission/validation.h"
#include "server/admission/waiting_room.h"
#include "server/cost/cost_model.h"
#include "server/cost/transport_model.h"
#include "server/device/device.h"
#include "server/holdings/quotas.h"
#include "server/observe/refusal.h"
#include "server/regions/region_table.h"
#include "server/scheduling/job.h"
#include "server/scheduling/router.h"
#include "server/store/operand_store.h"

namespace gemmd {

// The device, plan and cost that would serve a request.
struct Offer {
  ServedDevice served;
  Problem problem;  // as it would be placed there
  Plan plan;
  std::shared_ptr<const std::map<std::int64_t, Plan>> plans;  // of groups, see DeviceWork
  bool groups_go_together = false;                            // the same
  Footprint footprint;
  Cost cost;
};

// A request with memory for every byte of it: its job, which Submit() completes, and all that the
// job needs. Dropping it gives the memory back.
struct AdmittedMatmul {
  std::unique_ptr<Completion> completion;  // goes last
  std::unique_ptr<Job> job;
  Scheduler* scheduler = nullptr;  // of the device that will serve it
  StageSpan admission;
  ExpectedJob expected;

  InlinePayload& payload() const { return *completion->held.payload; }
  // The bytes of memory that dropping it gives back.
  std::uint64_t held_bytes() const {
    return MemoryBytes::Of(completion->held.charge.amounts()).total() +
           ResultOf(completion->problem, completion->stack).size_bytes();
  }
  // Its payload comes later: until Submit() the waits of others are predicted as if it were here.
  void ExpectPayload();
};

// The receipt's part from the time before Submit().
struct RequestTimes {
  TimeNs arrival = 0;
  std::vector<StageSpan> spans;  // what was done for the request besides admission
  TraceOrigin trace;
};

// The cost of a request, as things are now.
struct MatmulEstimate {
  Offer offer;
  Problem problem;
  Stack stack;
  double queue_us = 0;              // until the device would begin
  std::uint64_t receive_bytes = 0;  // of inline planes
  std::uint64_t send_bytes = 0;     // of D, where it comes back
  double receive_us = 0;
  double send_us = 0;
  bool receive_is_measured = false;  // see TransportModel
  bool send_is_measured = false;

  double flops() const { return FlopsOf(problem, stack); }
  double total_us() const { return receive_us + queue_us + offer.cost.device_us + send_us; }
};

// The limits of a single client.
struct ClientPolicy {
  int memory_percent = 100;     // of each kind, that one tenant or one address may hold
  WaitingRoom* room = nullptr;  // for requests that find memory full; null: they are refused
  // Addresses that many clients share: the shares of their connections count, not theirs.
  std::set<std::string> proxies;
  // Tenants whose requests may have high priority; absent: all.
  std::optional<std::set<std::string>> high_priority_tenants;
  Quotas* quotas = nullptr;  // of tenants that have quotas; null: nobody is limited by one
};

// The parts of a server that an admission may be without: null.
struct AdmissionHelpers {
  OperandStore* store = nullptr;     // operands that are kept, which make room for requests
  RegionTable* regions = nullptr;    // memory that clients share
  Verifier* verifier = nullptr;      // of products
  const PlanCache* plans = nullptr;  // measured plans, which are preferred to predicted ones
};

// Thread-safe. All that is passed to the constructor outlives the admission.
class Admission {
 public:
  using Callback = Completion::Callback;
  using AdmitCallback =
      absl::AnyInvocable<void(absl::StatusOr<std::unique_ptr<AdmittedMatmul>>) &&>;

  Admission(const RequestLimits& limits, const Registry* registry, const Router* router,
            const Clock* clock, const AdmissionHelpers& helpers = {}, ClientPolicy policy = {});

  // A new identity for a request, to cancel it by.
  std::uint64_t NextRequestId() { return next_request_id_.fetch_add(1); }

  // The way that D travels; as one message it must fit RequestLimits::result_bytes.
  enum class Carrier : std::uint8_t { kMessage, kStream };

  // Decides from the header alone, before any payload. In this order:
  //   UNAVAILABLE          draining, and the call did not come before that
  //   PERMISSION_DENIED    high priority, which the tenant may not have
  //   NOT_FOUND            no such resident operand; says which (missing.h)
  //   INVALID_ARGUMENT, UNIMPLEMENTED   see validation.h
  //   NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION   see SharedOperands::Find()
  //   FAILED_PRECONDITION  no kernel takes the problem
  //   INVALID_ARGUMENT     more bytes than the device has when it is empty
  //   DEADLINE_EXCEEDED    passed, or sooner than queue and launch are predicted to take, or to
  //                        be met only by making a request late that was admitted before
  //   RESOURCE_EXHAUSTED   memory is full now, or the caller's share of it, or others of its tenant
  //                        wait for memory, or a client that holds less does; carries
  //                        RetryAfterMs()
  //   and what Quotas::Take() says, once the problem is known
  // The first product that uses a resident operand waits until it has landed on the device.
  absl::StatusOr<std::unique_ptr<AdmittedMatmul>> Admit(const MatmulCall& call, TimeNs deadline,
                                                        Carrier carrier) const;

  // Returns whether calls that come now are refused.
  bool IsDraining() const { return router_->draining(); }

  // Returns whether a request that Admit() refused with this may wait for memory instead.
  bool MayWait(const absl::Status& refusal) const;
  // Has it wait, holding nothing but a message of `message_bytes`. `done` is called exactly once,
  // on any thread, perhaps before this returns, with what Admit() says in the end, or
  //   CANCELLED            Cancel() came first
  //   DEADLINE_EXCEEDED    the deadline did
  //   RESOURCE_EXHAUSTED   too much waits, or it waited too long, or nothing that requests hold is
  //                        in its way; carries RetryAfterMs()
  // REQUIRES: MayWait() is true of what Admit() said.
  void AwaitMemory(std::uint64_t request_id, const MatmulCall& call, TimeNs deadline,
                   Carrier carrier, std::uint64_t message_bytes, AdmitCallback done) const;

  // OK: queued, and `done` is called exactly once, perhaps before this returns, with what
  // Complete() says besides the job's own statuses.
  //   INVALID_ARGUMENT     the payload is not whole, or not what it must be
  //   FAILED_PRECONDITION  shared memory was cut short
  //   RESOURCE_EXHAUSTED   the queue is full; carries RetryAfterMs()
  absl::Status Submit(std::uint64_t request_id, std::unique_ptr<AdmittedMatmul> request,
                      RequestTimes times, Callback done);

  // Predicts the result of Admit() and Submit(). Its errors are Admit()'s, those of deadlines and
  // of memory that is full now excepted. Finding resident operands counts as a use of them.
  absl::StatusOr<MatmulEstimate> Estimate(const MatmulCall& call) const;

  // The rpc layer reports payload that it moved to this model.
  TransportModel* transport() { return &transport_; }

  // Cancels a request that waits for memory; for others see Scheduler::Cancel.
  void Cancel(std::uint64_t request_id) {
    if (policy_.room != nullptr) policy_.room->Cancel(request_id);
    router_->Cancel(request_id);
  }

  // Returns whether a request has waited long for memory, its own share apart, so that clients that
  // hold some without using it should give it back.
  bool IsMemoryWanted() const { return clock_->Now() < wanted_until_; }

  const RequestLimits& limits() const { return limits_; }
  // Returns what requests hold of the device's memory and of the host's, unread answers included.
  MemoryBytes HeldOf(const Device* device) const {
    return MemoryBytes::Of(shares_.at(device)->held());
  }
  // Counts what requests hold of the device's memory and of the host's, by whose they are.
  const Ledger& ledger_of(const Device* device) const { return *shares_.at(device); }

 private:
  // The facts that the header alone decides.
  struct ResolvedHeader {
    MatmulCall call;  // completed by what its resident operands are
    Problem problem;
    Stack stack;
    Ordering ordering;
    ResidentOperands residents;
    SharedOperands shared;

    MatrixLayout result() const { return ResultOf(problem, stack); }
  };
  // UNAVAILABLE: draining.
  absl::Status CheckServing() const;
  // Does what Admit() does, even if others wait and while the server drains. `quota`: what the
  // request holds of its tenant's, to be taken where it is let in; null: it holds nothing yet.
  absl::StatusOr<std::unique_ptr<AdmittedMatmul>> AdmitNow(const MatmulCall& call, TimeNs deadline,
                                                           Carrier carrier, Hold* quota) const;
  // Takes the request's part of its tenant's quota.
  absl::StatusOr<Hold> TakeQuota(const ResolvedHeader& resolved) const;
  absl::Status CheckPriority(const MatmulCall& call) const;
  absl::StatusOr<ResolvedHeader> ResolveHeader(const MatmulCall& request, Carrier carrier) const;
  // FAILED_PRECONDITION, INVALID_ARGUMENT: see Admit().
  absl::StatusOr<Offer> OfferOf(const ServedDevice& served, const ResolvedHeader& resolved) const;
  // The devices in the order in which to try them: first those that hold most of the resident
  // operands, or what is shared with one of them.
  std::vector<RoutedDevice> RouteOf(const ResolvedHeader& resolved) const;
  // Takes all memory that the request needs, on the most preferred device that has room. If none
  // has, returns the refusal of the most preferred device that may have room later; if none may, of
  // the most preferred one.
  absl::StatusOr<std::unique_ptr<AdmittedMatmul>> FindRoom(const ResolvedHeader& resolved,
                                                           TimeNs deadline) const;
  absl::StatusOr<std::unique_ptr<AdmittedMatmul>> TryDevice(const ServedDevice& served,
                                                            const ResolvedHeader& resolved,
                                                            TimeNs deadline) const;
  // The caller's share of what the request will take.
  struct Share {
    Hold charge;
    MemoryBytes result;                    // of it, D's
    bool has_page_locked_operands = true;  // where the device has such memory
  };
  // Memory of each kind that the request takes on a device, in parts.
  struct Need {
    MemoryBytes operands;
    MemoryBytes result;
    MemoryBytes rest;

    MemoryBytes all() const;
  };
  Need NeedOf(const ServedDevice& served, const ResolvedHeader& resolved,
              const Footprint& footprint) const;
  absl::StatusOr<Share> TakeShare(const ServedDevice& served, const ResolvedHeader& resolved,
                                  const Footprint& footprint) const;
  // Room for D where it is to stay.
  absl::Status AllocateKept(const ResolvedHeader& resolved, AdmittedMatmul* admitted) const;
  // Memory for the payload, for what is shared and not used in place, and for D.
  static absl::Status AllocateHost(const ResolvedHeader& resolved, Share* share,
                                   Completion* completion);
  MemoryHolder HolderOf(const MatmulCall& call) const;
  // A request that waits since `start` has found no room again.
  void NoteWait(TimeNs start, const absl::Status& refusal) const;
  // Returns whether requests hold memory that others may wait for.
  bool IsMemoryInUse() const;
  // Returns what a client's requests hold on all devices.
  std::uint64_t HeldBy(const MemoryHolder& holder) const;
  // Calls `attempt` until it does not find the device's memory full. Before each further call makes
  // room: moves the largest resident operand to the host or, where operands lie there anyway or
  // cannot be moved, evicts one without a lease.
  // The bytes that move are added to the receipt.
  absl::Status WithRoom(Device* device, Receipt* receipt,
                        const std::function<absl::Status()>& attempt) const;
  // The time by which the device is to be done, so that a result that travels is there in time.
  TimeNs DoneBy(const ResolvedHeader& resolved, TimeNs deadline) const;
  // `deadline`: as DoneBy() has it.
  absl::Status CheckDeadline(const ServedDevice& served, const MatmulCall& call, TimeNs deadline,
                             const Cost& cost) const;
  static absl::Status FullNow(const Scheduler& scheduler, RefusalCause cause, absl::Status status);

  // Marks a refusal that stands even when the requests in flight have ended.
  static constexpr char kStoreIsFullUrl[] = "gemmd/store-is-full";

  const RequestLimits limits_;
  const Router* const router_;
  const Clock* const clock_;
  const std::unique_ptr<PlanMemo> memo_;
  OperandStore* const store_;
  RegionTable* const regions_;
  Verifier* const verifier_;
  const ClientPolicy policy_;
  std::map<const Device*, std::unique_ptr<Ledger>> shares_;
  TransportModel transport_;
  std::atomic<std::uint64_t> next_request_id_{1};
  mutable std::atomic<TimeNs> wanted_until_{0};  // see IsMemoryWanted()
};

}  // namespace gemmd
