#include "server/device/cuda/resident_memory.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/gemm.h"
#include "server/device/cuda/launches/prepared_work.h"
#include "server/device/cuda/planes/landing.h"
#include "server/device/cuda/planes/plane.h"

namespace gemmd {
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

// The bytes of the matrix that both layouts have in common.
std::uint64_t CommonBytes(std::int64_t x, std::int64_t y, DataType type) {
  return static_cast<std::uint64_t>(std::min(x, y)) * static_cast<std::uint64_t>(SizeBits(type)) /
         8;
}

std::optional<PackedAs> PackedAsOf(const Problem& problem, WorkPlane plane) {
  const std::optional<WeightPlane> packed = PackedPlaneOf(problem, plane);
  if (!packed.has_value()) return std::nullopt;
  return PackedAs{problem, *packed};
}

// All of a block as one line.
MatrixLayout BytesOf(const CudaResident& resident) {
  const auto bytes = static_cast<std::int64_t>(LandedBytes(resident.layout()));
  return {DataType::kUint8, 1, bytes, Order::kRowMajor, bytes};
}

}  // namespace

ResidentMemory::ResidentMemory(Parts parts, Resources resources)
    : parts_(std::move(parts)),
      events_(std::make_shared<EventPool>(parts_.backend)),
      stream_(resources.stream),
      landing_stream_(resources.landing_slot->long_stream()),
      landing_ring_(std::move(resources.landing_ring)),
      landing_slot_(std::move(resources.landing_slot)),
      fetch_slot_(std::move(resources.fetch_slot)),
      fetch_slabs_(std::move(resources.fetch_slabs)) {}

void ResidentMemory::CountCopied(const CopiedBytes& copied) {
  copied_in_bytes_ += copied.in;
  copied_out_bytes_ += copied.out;
}

absl::StatusOr<std::shared_ptr<ResidentResult>> ResidentMemory::AllocateKept(
    const MatrixLayout& d) {
  if (absl::Status status = parts_.watcher->lost(); !status.ok()) return status;
  const MatrixLayout kept = KeptLayout(d);
  const std::uint64_t bytes = ResidentBytes(kept);
  absl::StatusOr<MemoryReservation> reservation = parts_.memory->ReserveResident(bytes);
  if (!reservation.ok()) return reservation.status();
  absl::StatusOr<std::shared_ptr<CUevent_st>> ready = events_->Take();
  if (!ready.ok()) return parts_.watcher->Noticed(ready.status());
  const absl::StatusOr<void*> memory = parts_.backend->Allocate(bytes, stream_, BlockLife::kStays);
  if (!memory.ok()) return parts_.watcher->Noticed(memory.status());
  auto result =
      std::make_shared<CudaResident>(parts_.backend, CudaResident::Block{*memory, stream_, *ready},
                                     *std::move(reservation), d, kept);
  if (absl::Status status = parts_.backend->Record(ready->get(), stream_); !status.ok()) {
    return parts_.watcher->Noticed(std::move(status));
  }
  return std::shared_ptr<ResidentResult>(std::move(result));
}

// One plane on its way: blocks of the device's memory, and commands of the landing stream.
class ResidentMemory::Arrival final : public ArrivingOperand {
 public:
  using Fill = absl::FunctionRef<void(CudaStream stream, CudaCommands* commands)>;

  Arrival(ResidentMemory* owner, const Problem& problem, WorkPlane plane,
          MemoryReservation reservation, MemoryReservation scratch_reservation,
          std::shared_ptr<CUevent_st> end)
      : owner_(owner),
        given_(PlaneOf(problem, plane)),
        landed_(ResidentPlaneOf(LandedProblem(problem), plane)),
        packed_(PackedAsOf(problem, plane)),
        reservation_(std::move(reservation)),
        scratch_reservation_(std::move(scratch_reservation)),
        end_(std::move(end)) {}
  ~Arrival() override {
    // Behind what was issued. A failure means that the device is lost, which is reported elsewhere.
    for (char* const block : {scratch_, memory_}) {
      if (block != nullptr) owner_->parts_.backend->Free(block, stream()).IgnoreError();
    }
  }
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  absl::Status Allocate(std::uint64_t scratch_bytes) {
    return Issue([&](CudaStream stream, CudaCommands* commands) {
      const auto allocate = [&](std::uint64_t bytes, BlockLife life) {
        return static_cast<char*>(commands->Allocate(bytes, stream, life));
      };
      memory_ = allocate(ResidentBytes(landed_), BlockLife::kStays);
      if (memory_ != nullptr && scratch_bytes != 0) {
        scratch_ = allocate(scratch_bytes, BlockLife::kLaunch);
      }
    });
  }

  // Has `fill` issue commands, none of which others' get between.
  absl::Status Issue(Fill fill) {
    const MutexLock landing(owner_->landing_);
    owner_->landing_slot_->Reset();
    CudaCommands commands(owner_->parts_.backend.get(), owner_->landing_slot_.get());
    fill(stream(), &commands);
    owner_->CountCopied(commands.copied());
    return owner_->parts_.watcher->Noticed(commands.TakeStatus());
  }

  absl::Status Bring(const void* plane, std::uint64_t begin, std::uint64_t end) override {
    if (absl::Status status = owner_->parts_.watcher->lost(); !status.ok()) return status;
    const MatrixLayout from = CopiedLayout(given_);
    // A plane comes as it was sent before it is packed.
    const MatrixLayout to = packed_.has_value() ? from : CopiedLayout(landed_);
    missing_bytes_ -= end - begin;
    return Issue([&](CudaStream stream, CudaCommands* commands) {
      owner_->landing_.AssertHeld();
      if (!std::exchange(has_any_, true) && IsPadded(from, to)) {
        commands->Zero(memory_, LandedBytes(to), stream);
      }
      for (const PlaneRect& rect : RectsOfBytes(from, begin, end)) {
        owner_->parts_.large_issuer->CopyIn(from, to, {plane, Access::kHost}, rect,
                                            scratch_ != nullptr ? scratch_ : memory_, stream,
                                            owner_->landing_ring_.get(), commands);
      }
    });
  }

  absl::StatusOr<std::shared_ptr<const ResidentOperand>> Finish() override {
    if (missing_bytes_ != 0) return absl::InternalError("bytes of the plane are missing");
    if (absl::Status status = owner_->parts_.watcher->lost(); !status.ok()) return status;
    absl::Status status = Issue([&](CudaStream stream, CudaCommands* commands) {
      if (packed_.has_value()) {
        if (scratch_ != nullptr) PackFrom(scratch_, stream, commands);
      } else if (scratch_ != nullptr) {
        TransposeInput(CopiedLayout(given_), CopiedLayout(landed_), 0,
                       CopiedLayout(landed_).outer(), scratch_, memory_, stream, commands);
      }
      if (commands->status().ok()) {
        commands->Update(owner_->parts_.backend->Record(end_.get(), stream));
      }
    });
    // Others land meanwhile.
    if (status.ok()) status = owner_->parts_.watcher->WaitUntilDone(end_.get());
    if (!status.ok()) return owner_->parts_.watcher->Noticed(std::move(status));
    return std::make_shared<const CudaResident>(
        owner_->parts_.backend,
        CudaResident::Block{std::exchange(memory_, nullptr), owner_->stream_, nullptr},
        std::move(reservation_), given_, landed_, packed_);
  }

  // REQUIRES: it is to be packed.
  void PackFrom(const void* sent, CudaStream stream, CudaCommands* commands) {
    commands->Launch(
        [packed = *packed_, sent, to = memory_](const LaunchTarget& target) {
          return PackPlane(packed.problem, packed.plane, sent, to, target);
        },
        stream);
  }

  char* memory() const { return memory_; }
  // Sets how many bytes are still to be brought.
  void Await(std::uint64_t bytes) { missing_bytes_ = bytes; }

 private:
  CudaStream stream() const { return owner_->landing_stream_; }

  ResidentMemory* const owner_;
  const MatrixLayout given_;
  const MatrixLayout landed_;
  const std::optional<PackedAs> packed_;
  MemoryReservation reservation_;
  const MemoryReservation scratch_reservation_;
  const std::shared_ptr<CUevent_st> end_;
  char* memory_ = nullptr;
  char* scratch_ = nullptr;  // null: it needs none
  bool has_any_ = false;
  std::uint64_t missing_bytes_ = 0;
};

absl::StatusOr<std::unique_ptr<ResidentMemory::Arrival>> ResidentMemory::Begin(
    const Problem& problem, WorkPlane plane, std::uint64_t scratch_bytes) {
  const MatrixLayout landed = ResidentPlaneOf(LandedProblem(problem), plane);
  if (absl::Status status = parts_.watcher->lost(); !status.ok()) return status;
  absl::StatusOr<MemoryReservation> reservation =
      parts_.memory->ReserveResident(ResidentBytes(landed));
  if (!reservation.ok()) return reservation.status();
  absl::StatusOr<MemoryReservation> scratch_reservation = parts_.memory->Reserve(scratch_bytes, 0);
  if (!scratch_reservation.ok()) return scratch_reservation.status();
  absl::StatusOr<std::shared_ptr<CUevent_st>> end = events_->Take();
  if (!end.ok()) return parts_.watcher->Noticed(end.status());
  auto arrival = std::make_unique<Arrival>(this, problem, plane, *std::move(reservation),
                                           *std::move(scratch_reservation), *std::move(end));
  if (absl::Status status = arrival->Allocate(scratch_bytes); !status.ok()) return status;
  return arrival;
}

absl::StatusOr<std::unique_ptr<ArrivingOperand>> ResidentMemory::BeginStore(const Problem& problem,
                                                                            WorkPlane plane) {
  const MatrixLayout given = PlaneOf(problem, plane);
  const MatrixLayout landed = PlaneOf(LandedProblem(problem), plane);
  std::uint64_t scratch_bytes = 0;
  if (PackedPlaneOf(problem, plane).has_value()) {
    scratch_bytes = given.size_bytes();
  } else if (IsTransposed(given, landed)) {
    scratch_bytes = LandedBytes(ScratchLayout(given));
  }
  absl::StatusOr<std::unique_ptr<Arrival>> arrival = Begin(problem, plane, scratch_bytes);
  if (arrival.ok()) (*arrival)->Await(given.size_bytes());
  return arrival;
}

absl::StatusOr<std::shared_ptr<const ResidentOperand>> ResidentMemory::Store(const Problem& problem,
                                                                             WorkPlane plane,
                                                                             const void* data) {
  const absl::StatusOr<std::unique_ptr<ArrivingOperand>> arrival = BeginStore(problem, plane);
  if (!arrival.ok()) return arrival.status();
  const std::uint64_t bytes = PlaneOf(problem, plane).size_bytes();
  if (absl::Status status = (*arrival)->Bring(data, 0, bytes); !status.ok()) return status;
  return (*arrival)->Finish();
}

absl::StatusOr<std::shared_ptr<const ResidentOperand>> ResidentMemory::StoreAgain(
    const ResidentOperand& operand, const Problem& problem, WorkPlane plane) {
  if (static_cast<const CudaResident&>(operand).packed().has_value()) {
    return StoreUnpacked(operand, problem, plane);
  }
  const MatrixLayout& from = operand.layout();
  // The plane itself, without what either layout is padded to.
  const MatrixLayout landed = PlaneOf(LandedProblem(problem), plane);
  const absl::StatusOr<std::unique_ptr<Arrival>> arrival = Begin(problem, plane, 0);
  if (!arrival.ok()) return arrival.status();
  char* const to = (*arrival)->memory();
  absl::Status status = (*arrival)->Issue([&](CudaStream stream, CudaCommands* commands) {
    if (PackedPlaneOf(problem, plane).has_value()) {
      (*arrival)->PackFrom(operand.data(), stream, commands);
      return;
    }
    if (!IsTransposed(from, landed)) {
      commands->Zero(to, LandedBytes(landed), stream);
      CudaRect rect;
      rect.to = to;
      rect.to_pitch = Pitch(landed);
      rect.from = operand.data();
      rect.from_pitch = Pitch(from);
      rect.width = CommonBytes(from.inner(), landed.inner(), landed.type);
      rect.lines = static_cast<std::uint64_t>(std::min(from.outer(), landed.outer()));
      commands->Copy(CopyDirection::kWithinDevice, rect, stream);
      return;
    }
    Transposition t;
    t.element_bytes = SizeBits(landed.type) / 8;
    t.rows = std::min(from.outer(), landed.inner());
    t.columns = std::min(from.inner(), landed.outer());
    t.from = operand.data();
    t.from_leading_dimension = from.leading_dimension;
    t.to = to;
    // A vector is one line, of no certain length.
    t.to_leading_dimension = PaddedLine(landed);
    t.padded_rows = landed.outer();
    t.padded_columns = landed.inner();
    commands->Launch([t](const LaunchTarget& target) { return LaunchTranspose(t, target); },
                     stream);
  });
  if (!status.ok()) return status;
  return (*arrival)->Finish();
}

absl::StatusOr<std::shared_ptr<const ResidentOperand>> ResidentMemory::StoreUnpacked(
    const ResidentOperand& operand, const Problem& problem, WorkPlane plane) {
  const HostBuffer sent = AllocateHostBuffer(PlaneOf(problem, plane).size_bytes());
  if (sent.empty()) return absl::ResourceExhaustedError("the host has no memory to unpack B in");
  char* const data = sent.front().data;
  if (absl::Status status = Fetch(operand, data); !status.ok()) return status;
  return Store(problem, plane, data);
}

// Through pinned slabs: while the host takes one, copies fill the others.
absl::Status ResidentMemory::Fetch(const ResidentOperand& operand, void* to) {
  if (absl::Status status = parts_.watcher->lost(); !status.ok()) return status;
  const auto& resident = static_cast<const CudaResident&>(operand);
  const std::optional<PackedAs>& packed = resident.packed();
  const MatrixLayout given =
      packed.has_value() ? BytesOf(resident) : CopiedLayout(resident.given());
  const MatrixLayout landed =
      packed.has_value() ? BytesOf(resident) : CopiedLayout(resident.layout());
  const bool is_transposed = IsTransposed(given, landed);
  const std::int64_t lines = is_transposed ? given.inner() : given.outer();
  const std::uint64_t width = ElementBytes(landed, is_transposed ? given.outer() : given.inner());
  const std::uint64_t element_bytes = ElementBytes(given, 1);
  const std::uint64_t pitch = Pitch(landed);
  const std::uint64_t to_pitch = Pitch(given);

  const MutexLock fetching(fetching_);
  // Without what pads it.
  std::uint64_t slab_bytes = fetch_slabs_.front().size_bytes;
  if (packed.has_value()) {
    slab_bytes -= slab_bytes % PackedPieceBytes(packed->problem, packed->plane);
  }
  const std::vector<PlaneRect> parts = CutForSlabs({0, lines, 0, width}, width, slab_bytes);
  const CudaStream stream = fetch_slot_->long_stream();
  fetch_slot_->Reset();
  CudaCommands commands(parts_.backend.get(), fetch_slot_.get());
  std::vector<CudaEvent> copied(fetch_slabs_.size());
  for (CudaEvent& event : copied) event = commands.Mark(stream);  // to be recorded anew
  if (!commands.status().ok()) return parts_.watcher->Noticed(commands.TakeStatus());
  const auto slab_of = [&](std::size_t part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(fetching_) {
    return fetch_slabs_[part % fetch_slabs_.size()].data;
  };
  const auto take = [&](std::size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(fetching_) {
    const PlaneRect& part = parts[index];
    const CudaEvent event = copied[index % copied.size()];
    if (absl::Status s = parts_.watcher->WaitUntilDone(event); !s.ok()) return s;
    const char* const slab = slab_of(index);
    if (packed.has_value()) {
      const std::uint64_t piece_bytes = PackedPieceBytes(packed->problem, packed->plane);
      UnpackPieces(packed->problem, packed->plane,
                   static_cast<std::int64_t>(part.byte_begin / piece_bytes),
                   static_cast<std::int64_t>(part.width() / piece_bytes), slab, to);
      return absl::OkStatus();
    }
    if (!is_transposed) {
      ScatterPart(part, slab, to, to_pitch);
      return absl::OkStatus();
    }
    TransposeLines(slab, part.width(), part.lines(),
                   static_cast<std::int64_t>(part.width() / element_bytes), element_bytes,
                   static_cast<char*>(to) + part.byte_begin / element_bytes * to_pitch +
                       static_cast<std::uint64_t>(part.line_begin) * element_bytes,
                   to_pitch);
    return absl::OkStatus();
  };
  absl::Status status;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < parts.size() && status.ok(); ++i) {
    if (i - taken == fetch_slabs_.size()) status = take(taken++);
    if (!status.ok()) break;
    commands.Copy(CopyDirection::kFromDevice,
                  CopyToSlab(parts[i], operand.data(), pitch, slab_of(i)), stream);
    if (commands.status().ok()) {
      commands.Update(parts_.backend->Record(copied[i % copied.size()], stream));
    }
    status = commands.status();
  }
  while (status.ok() && taken < parts.size()) status = take(taken++);
  CountCopied(commands.copied());
  if (status.ok()) return status;
  // Copies that are under way still write the slabs.
  commands.TakeStatus().IgnoreError();
  if (const CudaEvent last = commands.Mark(stream); last != nullptr) {
    parts_.watcher->WaitUntilDone(last).IgnoreError();
  }
  return parts_.watcher->Noticed(std::move(status));
}

}  // namespace gemmd
