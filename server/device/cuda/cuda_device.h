// A GPU as a device.
//
// Submit() issues small works at once, on the caller's thread, alone or as batches; large ones
// go to the feeder thread, which gathers their operands into pinned memory and issues their
// panels. Planes that stay come and go on their callers' threads, over streams of their own
// (store.cc). A completion thread watches the marks at the end of the launches' commands and calls
// back: no thread waits for one job. See small_issuer.h and large_issuer.h for the commands and
// landing.h for layouts.
//
// When the device is lost (errors.h, or no progress for a time), every work in it and every
// later one ends with UNAVAILABLE, and on_lost is told once: only a new process helps.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "server/device/cuda/backend.h"
#include "server/device/cuda/commands.h"
#include "server/device/cuda/large_issuer.h"
#include "server/device/cuda/pinned_pool.h"
#include "server/device/cuda/resident.h"
#include "server/device/cuda/sliced_work.h"
#include "server/device/cuda/small_issuer.h"
#include "server/device/device.h"
#include "server/device/host_memory_pool.h"
#include "server/device/keyed_pool.h"
#include "sync/mutex.h"

namespace gemmd {

class CudaDevice final : public Device {
 public:
  struct Options {
    std::uint64_t memory_bytes = 0;       // of the device, that requests may hold together
    std::uint64_t pinned_bytes = 0;       // of the host, for operands and results
    std::uint64_t unpinned_bytes = 0;     // of the host, for operands that find no room there
    int staging_threads = 1;              // gather large operands
    int in_flight = 8;                    // works at a time
    std::uint64_t panel_bytes = 4 << 20;  // see CutIntoPanels()
    std::int64_t stall_timeout_ms = 30000;
    // Called once, on any thread, before the works are told.
    std::function<void(const absl::Status&)> on_lost = [](const absl::Status&) {};
  };

  // Takes all memory at once. The clock outlives the device.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(std::shared_ptr<CudaBackend> backend,
                                                            const Options& options,
                                                            const Clock* clock);
  // Finishes what was submitted.
  ~CudaDevice() override;

  const DeviceTraits& traits() const override { return traits_; }
  MemoryBudget& memory() override { return memory_; }
  MemoryUsage host_memory_usage() const override;
  HostMemoryLimits host_memory_limits() const override;
  Problem Landed(const Problem& problem) const override { return LandedProblem(problem); }
  Footprint FootprintOf(const Problem& problem, const Plan& plan,
                        const Residency& resident) const override;
  // Pinned memory where there is enough in one piece, else ordinary memory, which is slower
  // by what the copy through the staging ring takes.
  absl::StatusOr<HostPiece> AllocateOperand(std::uint64_t bytes) override;
  absl::StatusOr<HostPiece> AllocateOrdinaryOperand(std::uint64_t bytes) override {
    return unpinned_memory_->Allocate(bytes);
  }
  absl::StatusOr<HostBuffer> AllocateResult(const MatrixLayout& d) override;
  absl::StatusOr<std::shared_ptr<const SharedMapping>> MapShared(int file, std::uint64_t offset,
                                                                 std::uint64_t bytes) override;
  absl::StatusOr<std::shared_ptr<const SharedMapping>> MapDeviceMemory(
      absl::string_view handle, std::uint64_t offset, std::uint64_t bytes) override;
  int max_in_flight() const override { return options_.in_flight; }
  // One computes while the next one's rows arrive.
  int busy_in_flight() const override { return std::min(2, options_.in_flight); }
  // Rows over one resident B where the device reaches A in pinned memory, groups of what is
  // small; large works alone, or cut.
  BatchForm FormOf(const DeviceWork& work) const override;
  std::shared_ptr<SlicedWork> Cut(const DeviceWork& work, double slice_us) override;
  void Submit(DeviceLaunch launch, Callback done) override;

  bool uses_host_memory() const override { return false; }
  // Ordinary memory, not counted here: an operand waits in it for its first use.
  absl::StatusOr<HostPiece> AllocateResident(std::uint64_t bytes) override;
  absl::StatusOr<std::shared_ptr<ResidentResult>> AllocateKept(const MatrixLayout& d) override;
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> Store(const Problem& problem,
                                                               WorkPlane plane,
                                                               const void* data) override;
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> StoreAgain(const ResidentOperand& operand,
                                                                    const Problem& problem,
                                                                    WorkPlane plane) override;
  absl::Status Fetch(const ResidentOperand& operand, void* to) override;
  CopiedBytes copied() const override;

  // Runs every kernel of the registry that this device has on a small problem, and one work
  // in panels, so that no request pays for modules, handles and first launches.
  absl::Status WarmUp(const Registry& registry);

  // Pinned memory that operands may come from without staging.
  const std::shared_ptr<PinnedPool>& pinned() const { return large_results_; }

 private:
  // A launch between Submit() and its callback.
  struct Item {
    explicit Item(DeviceLaunch given) : launch(std::move(given)) {}
    DeviceLaunch launch;
    Callback done;
    MemoryReservation reservation;  // beyond what the works' own cover
    std::unique_ptr<CudaSlot> slot;
    IssuedWork issued;
    TimeNs issued_at = 0;
  };
  using ItemPtr = std::unique_ptr<Item>;

  CudaDevice(std::shared_ptr<CudaBackend> backend, const Options& options, const Clock* clock);
  absl::Status Start();
  absl::Status RunOnZeros(const Problem& problem, const Plan& plan, int count);
  // A block for a plane that stays, which `fill` brings there through a scratch block of
  // `scratch_bytes` (0: none, and `scratch` is `to`). Waits for what `fill` issued on the stream.
  using Fill =
      absl::FunctionRef<void(char* scratch, char* to, CudaStream stream, CudaCommands* commands)>;
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> Land(const MatrixLayout& given,
                                                              const MatrixLayout& landed,
                                                              std::uint64_t scratch_bytes,
                                                              Fill fill);
  // Remembers that the device is lost, if that is what the status says.
  absl::Status Noticed(absl::Status status);
  void CountCopied(const CopiedBytes& copied);

  // Makes factors that lie on the device already, as they would land, residents of the work.
  void UseInPlace(DeviceWork* work) const;

  // A free slot, or null.
  std::unique_ptr<CudaSlot> TakeSlot();
  // Whether the works can go as rows, with room for what their plan needs.
  bool ReserveForRows(Item* item);
  // Empty: the launch is for the feeder. REQUIRES: the item has a slot.
  std::optional<IssuedWork> IssueQuickly(const Item& item) const;
  void IssueOnFeeder(ItemPtr item);  // on the feeder thread
  // Again, while there is no memory for it, when works that are under way have ended. `own`
  // is what the launch itself has under way; may be null.
  std::optional<IssuedWork> IssueInTime(CudaEvent own,
                                        absl::FunctionRef<std::optional<IssuedWork>()> issue);
  // Hands an item whose commands were issued to the completion thread; one with nothing
  // under way ends here.
  void Watch(ItemPtr item);
  void Finish(ItemPtr item, absl::Status status, TimeNs now);
  std::vector<StageSpan> SpansOf(const Item& item, TimeNs now) const;
  // What every work ends with once the device is lost; OK until then.
  absl::Status lost() const;
  void Lose(const absl::Status& status);

  void Complete();  // the completion thread
  // Takes out what is done; the error is the device's.
  absl::StatusOr<std::vector<ItemPtr>> TakeDone(std::vector<ItemPtr>* watched) const;
  // Tells items' ends, and that they are under way no more.
  void FinishAll(std::vector<ItemPtr> items, const absl::Status& failure, TimeNs now);
  // OK once the event is done; UNAVAILABLE if the device is lost or stalls before.
  absl::Status WaitUntilDone(CudaEvent event);
  absl::Status StalledSince(TimeNs since) const;

  const std::shared_ptr<CudaBackend> backend_;
  const Options options_;
  const Clock* const clock_;
  DeviceTraits traits_;  // constant after Start(), like all up to the mutex
  MemoryBudget memory_;
  const std::shared_ptr<HostMemoryPool> unpinned_memory_;
  std::shared_ptr<PinnedPool> small_results_;
  std::shared_ptr<PinnedPool> large_results_;
  std::shared_ptr<PinnedPool> staging_;
  ThreadExecutor gatherers_;
  CudaStreams streams_;
  std::shared_ptr<EventPool> events_;
  std::unique_ptr<StagingRing> ring_;  // of the feeder thread
  CudaStream kept_stream_ = nullptr;   // in whose order blocks of results that stay come and go
  std::atomic<std::uint64_t> copied_in_bytes_ = 0;
  std::atomic<std::uint64_t> copied_out_bytes_ = 0;
  std::unique_ptr<SmallIssuer> small_issuer_;
  std::unique_ptr<LargeIssuer> large_issuer_;

  // Held while commands that land a plane are issued, not while they run.
  Mutex landing_;
  ThreadExecutor landing_gatherers_ ABSL_GUARDED_BY(landing_);
  std::unique_ptr<StagingRing> landing_ring_ ABSL_GUARDED_BY(landing_);
  std::unique_ptr<CudaSlot> landing_slot_ ABSL_GUARDED_BY(landing_);
  // Held while a plane is fetched.
  Mutex fetching_;
  std::unique_ptr<CudaSlot> fetch_slot_ ABSL_GUARDED_BY(fetching_);
  HostBuffer fetch_slabs_ ABSL_GUARDED_BY(fetching_);

  mutable Mutex mutex_;
  CondVar watch_;
  CondVar slot_is_free_;
  std::vector<std::unique_ptr<CudaSlot>> free_slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<ItemPtr> issued_ ABSL_GUARDED_BY(mutex_);  // the completion thread takes them
  std::size_t under_way_ ABSL_GUARDED_BY(mutex_) = 0;    // issued_ and what that thread has taken
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  bool completion_stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> is_lost_ = false;  // whether lost_ is an error: asked for every request

  std::unique_ptr<KeyedPool> feeder_;  // one thread. Last, as the next: they use all else
  std::thread completion_;
};

}  // namespace gemmd
