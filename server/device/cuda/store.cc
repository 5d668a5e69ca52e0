#include <future>
#include <utility>

#include "server/device/cuda/cuda_device.h"

namespace gemmd {

// The block of one stored operand.
class CudaDevice::Resident final : public ResidentOperand {
 public:
  Resident(std::shared_ptr<CudaBackend> backend, void* memory, CudaStream stream,
           MemoryReservation reservation)
      : backend_(std::move(backend)),
        memory_(memory),
        stream_(stream),
        reservation_(std::move(reservation)) {}

  // A failure to free means that the device is lost, which is told elsewhere.
  ~Resident() override { backend_->Free(memory_, stream_).IgnoreError(); }

  const void* data() const override { return memory_; }

 private:
  const std::shared_ptr<CudaBackend> backend_;
  void* const memory_;
  const CudaStream stream_;
  const MemoryReservation reservation_;
};

absl::StatusOr<std::shared_ptr<const ResidentOperand>> CudaDevice::Store(const Problem& problem,
                                                                         Side side,
                                                                         const void* data) {
  std::promise<absl::StatusOr<std::shared_ptr<const ResidentOperand>>> promise;
  auto stored = promise.get_future();
  PostToFeeder([&] { promise.set_value(StoreOnFeeder(problem, side, data)); });
  return stored.get();
}

absl::StatusOr<std::shared_ptr<const ResidentOperand>> CudaDevice::StoreOnFeeder(
    const Problem& problem, Side side, const void* data) {
  const Problem landed_problem = LandedProblem(problem);
  const MatrixLayout& sent = side == Side::kA ? problem.a : problem.b;
  const MatrixLayout& landed = side == Side::kA ? landed_problem.a : landed_problem.b;
  const std::uint64_t bytes = LandedBytes(landed);
  const std::uint64_t scratch_bytes =
      IsTransposed(sent, landed) ? LandedBytes(ScratchLayout(sent)) : 0;
  absl::StatusOr<MemoryReservation> reservation = memory_.ReserveResident(bytes);
  if (!reservation.ok()) return reservation.status();
  absl::StatusOr<MemoryReservation> scratch_reservation = memory_.Reserve(scratch_bytes, 0);
  if (!scratch_reservation.ok()) return scratch_reservation.status();

  const CudaStream stream = streams_.copy_in;
  store_slot_->Reset();
  CudaCommands commands(backend_.get(), store_slot_.get());
  auto* const memory = static_cast<char*>(commands.Allocate(bytes, stream));
  if (memory == nullptr) return commands.TakeStatus();
  auto resident =
      std::make_shared<const Resident>(backend_, memory, stream, *std::move(reservation));
  auto* scratch = memory;
  if (scratch_bytes != 0) scratch = static_cast<char*>(commands.Allocate(scratch_bytes, stream));
  issuer_->Land(sent, landed, data, scratch, memory, ring_.get(), &commands);
  absl::Status status = commands.TakeStatus();
  if (scratch != nullptr && scratch != memory) commands.Free(scratch, stream);
  const CudaEvent landed_mark = commands.Mark(stream);
  status.Update(commands.TakeStatus());
  if (landed_mark != nullptr) status.Update(WaitUntilDone(landed_mark));
  if (!status.ok()) return status;
  return resident;
}

}  // namespace gemmd
