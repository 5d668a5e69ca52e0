#include "server/admission/inline_payload.h"

#include <algorithm>
#include <cstring>
#include <optional>
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

// Returns whether the operand has no elements, and the problem has zeros for it: ValidateHeader()
// made its K 1 of 0.
bool IsAllZeros(const PlaneSpec& sent) { return sent.rows == 0 || sent.columns == 0; }

// Calls visit(plane, layout, spec) for every inline plane, in the order of the wire.
template <typename Visit>
void ForEachInlinePlane(const MatmulCall& call, const Problem& problem, const Stack& stack,
                        const Visit& visit) {
  for (const OperandPlane& each : kOperandPlanes) {
    const std::optional<OperandSpec>& spec = call.operand(each.operand);
    if (!spec.has_value() || spec->source != Source::kInline) continue;
    // C is sent where the header has it, though beta may be 0.
    if (each.plane != WorkPlane::kC && !HasPlane(problem, each.plane)) continue;
    MatrixLayout layout = PlaneOf(problem, stack, each.plane);
    if (each.plane == WorkPlane::kBias && spec->data.leading_dimension != 0 && stack.is_one()) {
      layout.leading_dimension = static_cast<std::int64_t>(spec->data.leading_dimension);
    }
    visit(each, layout, *spec);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<InlinePayload>> InlinePayload::Create(const MatmulCall& call,
                                                                     const Problem& problem,
                                                                     const Stack& stack,
                                                                     Allocate allocate) {
  std::unique_ptr<InlinePayload> payload(new InlinePayload);
  payload->problem_ = problem;
  absl::Status status;
  ForEachInlinePlane(
      call, problem, stack,
      [&](const OperandPlane& each, const MatrixLayout& layout, const OperandSpec& spec) {
        if (!status.ok()) return;
        absl::StatusOr<HostPiece> memory = allocate(layout.size_bytes());
        status = memory.status();
        if (!status.ok()) return;
        const bool is_zeros = each.name == PlaneName::kData && IsAllZeros(spec.data);
        if (is_zeros) std::memset(memory->data, 0, layout.size_bytes());
        payload->planes_[each.plane] = std::make_unique<PlaneReceiver>(
            Name(each.operand, each.name), is_zeros ? 0 : layout.size_bytes(),
            is_zeros ? 0 : PaddedBytes(layout), HostBuffer{*std::move(memory)});
      });
  if (!status.ok()) return status;
  return payload;
}

std::vector<std::uint64_t> InlinePayload::PlaneBytes(const MatmulCall& call, const Problem& problem,
                                                     const Stack& stack) {
  std::vector<std::uint64_t> bytes;
  ForEachInlinePlane(call, problem, stack,
                     [&bytes](const OperandPlane&, const MatrixLayout& layout, const OperandSpec&) {
                       bytes.push_back(layout.size_bytes());
                     });
  return bytes;
}

absl::Status InlinePayload::Receive(const PayloadChunk& chunk) {
  const std::optional<WorkPlane> plane = WorkPlaneOf(chunk.operand, chunk.plane);
  PlaneReceiver* const receiver = plane.has_value() ? planes_[*plane].get() : nullptr;
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
  return std::all_of(kWorkPlanes.begin(), kWorkPlanes.end(), [this](WorkPlane plane) {
    return planes_[plane] == nullptr || planes_[plane]->complete();
  });
}

absl::Status InlinePayload::Check() const {
  for (const OperandPlane& each : kOperandPlanes) {
    if (planes_[each.plane] == nullptr) continue;
    if (absl::Status s = planes_[each.plane]->CheckComplete(); !s.ok()) return s;
  }
  for (const OperandPlane& each : kOperandPlanes) {
    if (planes_[each.plane] == nullptr || each.name == PlaneName::kData) continue;
    if (absl::Status s = CheckScales(each); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status InlinePayload::CheckScales(const OperandPlane& plane) const {
  const PlaneReceiver& receiver = *planes_[plane.plane];
  const void* const values = receiver.memory().front().data;
  if (plane.name == PlaneName::kZeroPoints) {
    const DataType element = plane.operand == OperandName::kA ? problem_.a.type : problem_.b.type;
    return CheckZeroPoints(receiver.name(), element, values, receiver.size_bytes());
  }
  return CheckScaleValues(receiver.name(), PlaneOf(problem_, plane.plane).type, values,
                          receiver.size_bytes());
}

std::uint64_t InlinePayload::received_bytes() const {
  std::uint64_t bytes = 0;
  for (const WorkPlane plane : kWorkPlanes) {
    if (planes_[plane] != nullptr) bytes += planes_[plane]->received_bytes();
  }
  return bytes;
}

char* InlinePayload::memory(WorkPlane plane) const {
  return planes_[plane] == nullptr ? nullptr : planes_[plane]->memory().front().data;
}

HostBuffers InlinePayload::buffers() const {
  HostBuffers buffers;
  for (const WorkPlane plane : kWorkPlanes) {
    if (planes_[plane] != nullptr) buffers[plane] = planes_[plane]->memory().front().data;
  }
  return buffers;
}

}  // namespace gemmd
