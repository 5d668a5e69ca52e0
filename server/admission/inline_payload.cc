#include "server/admission/inline_payload.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/admission/scale_values.h"

namespace gemmd {
namespace {

// With the padding of the last line, which is accepted and not needed.
std::uint64_t PaddedBytes(const MatrixLayout& layout) {
  const std::uint64_t elements = static_cast<std::uint64_t>(layout.outer()) *
                                 static_cast<std::uint64_t>(layout.leading_dimension);
  return (elements * static_cast<std::uint64_t>(SizeBits(layout.type)) + 7) / 8;
}

MatrixLayout VectorOf(DataType type, std::int64_t count) {
  return {type, 1, count, Order::kRowMajor, count};
}

MatrixLayout ScaleLayout(Scaling scaling, std::int64_t count) {
  return VectorOf(DataType::kF32, scaling == Scaling::kTensor ? 1 : count);
}

absl::Status CheckScales(const PlaneReceiver& plane) {
  return CheckScaleValues(plane.name(), reinterpret_cast<const float*>(plane.memory().front().data),
                          plane.size_bytes() / sizeof(float));
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
  add(OperandName::kA, PlaneName::kData, problem.a);
  add(OperandName::kB, PlaneName::kData, problem.b);
  if (call.c.has_value()) add(OperandName::kC, PlaneName::kData, problem.c);
  if (call.bias.has_value()) {
    MatrixLayout bias = VectorOf(problem.d.type, problem.n);
    if (call.bias->data.leading_dimension != 0) {
      bias.leading_dimension = static_cast<std::int64_t>(call.bias->data.leading_dimension);
    }
    add(OperandName::kBias, PlaneName::kData, bias);
  }
  if (problem.a_scaling != Scaling::kNone) {
    add(OperandName::kA, PlaneName::kScales, ScaleLayout(problem.a_scaling, problem.m));
  }
  if (problem.b_scaling != Scaling::kNone) {
    add(OperandName::kB, PlaneName::kScales, ScaleLayout(problem.b_scaling, problem.n));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<InlinePayload>> InlinePayload::Create(const MatmulCall& call,
                                                                     const Problem& problem,
                                                                     Allocate allocate) {
  std::unique_ptr<InlinePayload> payload(new InlinePayload);
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
      std::make_unique<PlaneReceiver>(
          absl::StrCat(Name(operand), plane == PlaneName::kScales ? ".scales" : ""),
          layout.size_bytes(), PaddedBytes(layout), HostBuffer{*std::move(memory)});
  return absl::OkStatus();
}

absl::Status InlinePayload::Receive(const PayloadChunk& chunk) {
  const auto plane = static_cast<std::size_t>(chunk.plane);
  PlaneReceiver* const receiver =
      plane < kPlanes ? operands_[static_cast<std::size_t>(chunk.operand)][plane].get() : nullptr;
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
  for (const Planes& planes : operands_) {
    const auto& scales = planes[static_cast<std::size_t>(PlaneName::kScales)];
    if (scales == nullptr) continue;
    if (absl::Status status = CheckScales(*scales); !status.ok()) return status;
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

const void* InlinePayload::DataOf(OperandName operand, PlaneName plane) const {
  const auto& receiver =
      operands_[static_cast<std::size_t>(operand)][static_cast<std::size_t>(plane)];
  return receiver == nullptr ? nullptr : receiver->memory().front().data;
}

HostBuffers InlinePayload::buffers() const {
  HostBuffers buffers;
  buffers.a = DataOf(OperandName::kA, PlaneName::kData);
  buffers.b = DataOf(OperandName::kB, PlaneName::kData);
  buffers.c = DataOf(OperandName::kC, PlaneName::kData);
  buffers.bias = DataOf(OperandName::kBias, PlaneName::kData);
  buffers.a_scales = static_cast<const float*>(DataOf(OperandName::kA, PlaneName::kScales));
  buffers.b_scales = static_cast<const float*>(DataOf(OperandName::kB, PlaneName::kScales));
  return buffers;
}

}  // namespace gemmd
