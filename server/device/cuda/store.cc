#include <algorithm>
#include <cstring>
#include <future>
#include <utility>
#include <vector>

#include "server/device/cuda/cuda_device.h"

namespace gemmd {

// The block of one stored operand.
class CudaDevice::Resident final : public ResidentOperand {
 public:
  Resident(std::shared_ptr<CudaBackend> backend, void* memory, CudaStream stream,
           MemoryReservation reservation, const MatrixLayout& sent, const MatrixLayout& landed)
      : backend_(std::move(backend)),
        memory_(memory),
        stream_(stream),
        reservation_(std::move(reservation)),
        sent_(sent),
        landed_(landed) {}

  // A failure to free means that the device is lost, which is told elsewhere.
  ~Resident() override { backend_->Free(memory_, stream_).IgnoreError(); }

  const void* data() const override { return memory_; }
  const MatrixLayout& sent() const { return sent_; }
  const MatrixLayout& landed() const { return landed_; }

 private:
  const std::shared_ptr<CudaBackend> backend_;
  void* const memory_;
  const CudaStream stream_;
  const MemoryReservation reservation_;
  const MatrixLayout sent_;
  const MatrixLayout landed_;
};

namespace {

// from: `lines` lines of `columns` elements, `pitch` bytes apart. to[column][line], lines
// `to_pitch` bytes apart.
void TransposeLines(const char* from, std::uint64_t pitch, std::int64_t lines, std::int64_t columns,
                    std::uint64_t element_bytes, char* to, std::uint64_t to_pitch) {
  for (std::int64_t line = 0; line < lines; ++line) {
    for (std::int64_t column = 0; column < columns; ++column) {
      std::memcpy(to + static_cast<std::uint64_t>(column) * to_pitch +
                      static_cast<std::uint64_t>(line) * element_bytes,
                  from + static_cast<std::uint64_t>(line) * pitch +
                      static_cast<std::uint64_t>(column) * element_bytes,
                  element_bytes);
    }
  }
}

}  // namespace

absl::StatusOr<HostPiece> CudaDevice::AllocateResident(std::uint64_t bytes) {
  if (absl::Status status = lost(); !status.ok()) return status;
  HostBuffer buffer = AllocateHostBuffer(bytes);
  if (!buffer.empty()) return std::move(buffer.front());
  return absl::ResourceExhaustedError("the host has no memory for an operand");
}

absl::StatusOr<std::shared_ptr<const ResidentOperand>> CudaDevice::Store(const Problem& problem,
                                                                         Side side,
                                                                         const void* data) {
  std::promise<absl::StatusOr<std::shared_ptr<const ResidentOperand>>> promise;
  auto stored = promise.get_future();
  feeder_->Post(0, [&] { promise.set_value(StoreOnFeeder(problem, side, data)); });
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
  auto* const memory = static_cast<char*>(commands.Allocate(bytes, stream, BlockLife::kStays));
  if (memory == nullptr) return commands.TakeStatus();
  auto resident = std::make_shared<const Resident>(backend_, memory, stream,
                                                   *std::move(reservation), sent, landed);
  auto* scratch = memory;
  if (scratch_bytes != 0) scratch = static_cast<char*>(commands.Allocate(scratch_bytes, stream));
  large_issuer_->Land(sent, landed, data, scratch, memory, ring_.get(), &commands);
  absl::Status status = commands.TakeStatus();
  if (scratch != nullptr && scratch != memory) commands.Free(scratch, stream);
  const CudaEvent landed_mark = commands.Mark(stream);
  status.Update(commands.TakeStatus());
  if (landed_mark != nullptr) status.Update(WaitUntilDone(landed_mark));
  if (!status.ok()) return status;
  return resident;
}

absl::Status CudaDevice::Fetch(const ResidentOperand& operand, void* to) {
  std::promise<absl::Status> promise;
  auto fetched = promise.get_future();
  feeder_->Post(0, [&] {
    promise.set_value(FetchOnFeeder(static_cast<const Resident&>(operand), static_cast<char*>(to)));
  });
  return fetched.get();
}

// Through the store slot's pinned memory, a piece at a time: it is rare, and speed is not what
// it is for.
absl::Status CudaDevice::FetchOnFeeder(const Resident& operand, char* to) {
  const MatrixLayout& sent = operand.sent();
  const MatrixLayout& landed = operand.landed();
  const bool is_transposed = IsTransposed(sent, landed);
  // Of the landed plane, without what pads it.
  const std::int64_t lines = is_transposed ? sent.inner() : sent.outer();
  const std::uint64_t width = ElementBytes(landed, is_transposed ? sent.outer() : sent.inner());
  const std::uint64_t pitch = ElementBytes(landed, landed.leading_dimension);
  const std::uint64_t to_pitch = ElementBytes(sent, sent.leading_dimension);
  const HostPiece& staging = store_slot_->staging();
  const std::uint64_t part = std::min(width, staging.size_bytes);
  const std::int64_t group =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(staging.size_bytes / part));
  const std::uint64_t element_bytes = ElementBytes(sent, 1);
  for (std::int64_t line = 0; line < lines; line += group) {
    const std::int64_t count = std::min(group, lines - line);
    for (std::uint64_t at = 0; at < width; at += part) {
      const std::uint64_t bytes = std::min(part, width - at);
      store_slot_->Reset();
      CudaCommands commands(backend_.get(), store_slot_.get());
      const auto* const from =
          static_cast<const char*>(operand.data()) + static_cast<std::uint64_t>(line) * pitch + at;
      commands.Copy(CopyDirection::kFromDevice,
                    {staging.data, bytes, from, pitch, bytes, static_cast<std::uint64_t>(count)},
                    streams_.copy_in);
      const CudaEvent copied = commands.Mark(streams_.copy_in);
      absl::Status status = commands.TakeStatus();
      if (status.ok()) status = WaitUntilDone(copied);
      if (!status.ok()) return status;
      if (is_transposed) {
        TransposeLines(
            staging.data, bytes, count, static_cast<std::int64_t>(bytes / element_bytes),
            element_bytes,
            to + at / element_bytes * to_pitch + static_cast<std::uint64_t>(line) * element_bytes,
            to_pitch);
        continue;
      }
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(to + static_cast<std::uint64_t>(line + i) * to_pitch + at,
                    staging.data + static_cast<std::uint64_t>(i) * bytes, bytes);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace gemmd
