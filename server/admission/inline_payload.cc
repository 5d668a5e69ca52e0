#include "server/admission/inline_payload.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/scale_values.h"

namespace gemmd {
namespace {

// With the padding of the last line, which is accepted and not needed.
std::uint64_t PaddedBytes(const MatrixLayout& layout) {
  const std::uint64_t elements = static_cast<std::uint64_t>(layout.outer()) *
                                 static_cast<std::uint64_t>(layout.leading_dimension);
  return (elements * static_cast<std::uint64_t>(SizeBits(layout.type)) + 7) / 8;
}

// Calls visit(operand, plane, layout) for every inline plane.
template <typename Visit>
void ForEachInlinePlane(const MatmulCall& call, const Problem& problem, const Visit& visit) {
  const std::optional<OperandSpec>* const specs[] = {&call.a, &call.b, &call.c, &call.bias};
  const auto add = [&](OperandName operand, PlaneName plane, const MatrixLayout& layout) {
    if ((*specs[static_cast<std::size_t>(operand)])->source == Source::kInline) {
      visit(operand, plane, layout);
    }
  };
  for (const OperandName operand : {OperandName::kA, OperandName::kB}) {
    for (const PlaneName plane : kPlaneNames) {
      const WorkPlane work_plane = *WorkPlaneOf(operand, plane);
      if (HasPlane(problem, work_plane)) add(operand, plane, PlaneOf(problem, work_plane));
    }
  }
  if (call.c.has_value()) add(OperandName::kC, PlaneName::kData, problem.c);
  if (call.bias.has_value()) {
    MatrixLayout bias = PlaneOf(problem, WorkPlane::kBias);
    if (call.bias->data.leading_dimension != 0) {
      bias.leading_dimension = static_cast<std::int64_t>(call.bias->data.leading_dimension);
    }
    add(OperandName::kBias, PlaneName::kData, bias);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<InlinePayload>> InlinePayload::Create(const MatmulCall& call,
                                                                     const Problem& problem,
                                                                     Allocate allocate) {
  std::unique_ptr<InlinePayload> payload(new InlinePayload);
  payload->problem_ = problem;
  absl::Status status;
  ForEachInlinePlane(call, problem,
                     [&](OperandName operand, PlaneName plane, const MatrixLayout& layout) {
                       if (status.ok()) status = payload->Add(operand, plane, layout, allocate);
                     });
  if (!status.ok()) return status;
  return payload;
}

std::vector<std::uint64_t> InlinePayload::PlaneBytes(const MatmulCall& call,
                                                     const Problem& problem) {
  std::vector<std::uint64_t> bytes;
  ForEachInlinePlane(call, problem, [&bytes](OperandName, PlaneName, const MatrixLayout& layout) {
    bytes.push_back(layout.size_bytes());
  });
  return bytes;
}

absl::Status InlinePayload::Add(OperandName operand, PlaneName plane, const MatrixLayout& layout,
                                Allocate allocate) {
  absl::StatusOr<HostPiece> memory = allocate(layout.size_bytes());
  if (!memory.ok()) return memory.status();
  operands_[static_cast<std::size_t>(operand)][static_cast<std::size_t>(plane)] =
      std::make_unique<PlaneReceiver>(Name(operand, plane), layout.size_bytes(),
                                      PaddedBytes(layout), HostBuffer{*std::move(memory)});
  return absl::OkStatus();
}

absl::Status InlinePayload::Receive(const PayloadChunk& chunk) {
  PlaneReceiver* const receiver =
      operands_[static_cast<std::size_t>(chunk.operand)][static_cast<std::size_t>(chunk.plane)]
          .get();
  if (receiver == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("payload has a chunk for a plane of ",
                                                   Name(chunk.operand),
                                                   " that the header does not have"));
  }
  std::uint64_t bytes = 0;
  for (absl::string_view piece : chunk.pieces) bytes += piece.size();
  if (absl::Status status = chunks_.Add(bytes); !status.ok()) return status;
  return receiver->Receive(chunk.offset, chunk.pieces);
}

bool InlinePayload::complete() const {
  for (const Planes& planes : operands_) {
    for (const auto& plane : planes) {
      if (plane != nullptr && !plane->complete()) return false;
    }
  }
  return true;
}

absl::Status InlinePayload::Check() const {
  for (const Planes& planes : operands_) {
    for (const auto& plane : planes) {
      if (plane == nullptr) continue;
      if (absl::Status status = plane->CheckComplete(); !status.ok()) return status;
    }
  }
  for (const OperandName operand : {OperandName::kA, OperandName::kB}) {
    if (absl::Status status = CheckScales(operand); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status InlinePayload::CheckScales(OperandName operand) const {
  const DataType element = operand == OperandName::kA ? problem_.a.type : problem_.b.type;
  for (const PlaneName plane :
       {PlaneName::kScales, PlaneName::kZeroPoints, PlaneName::kTensorScale}) {
    const PlaneReceiver* const receiver =
        operands_[static_cast<std::size_t>(operand)][static_cast<std::size_t>(plane)].get();
    if (receiver == nullptr) continue;
    const void* const values = receiver->memory().front().data;
    const DataType type = PlaneOf(problem_, *WorkPlaneOf(operand, plane)).type;
    absl::Status status =
        plane == PlaneName::kZeroPoints
            ? CheckZeroPoints(receiver->name(), element, values, receiver->size_bytes())
            : CheckScaleValues(receiver->name(), type, values, receiver->size_bytes());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::uint64_t InlinePayload::received_bytes() const {
  std::uint64_t bytes = 0;
  for (const Planes& planes : operands_) {
    for (const auto& plane : planes) {
      if (plane != nullptr) bytes += plane->received_bytes();
    }
  }
  return bytes;
}

HostBuffers InlinePayload::buffers() const {
  HostBuffers buffers;
  for (std::size_t operand = 0; operand < kOperandCount; ++operand) {
    for (const PlaneName plane : kPlaneNames) {
      const auto& receiver = operands_[operand][static_cast<std::size_t>(plane)];
      if (receiver == nullptr) continue;
      buffers.of(*WorkPlaneOf(static_cast<OperandName>(operand), plane)) =
          receiver->memory().front().data;
    }
  }
  return buffers;
}

}  // namespace gemmd
