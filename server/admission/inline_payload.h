// The inline planes of one request, while their bytes arrive.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/admission/matmul_call.h"
#include "server/device/device.h"
#include "server/device/plane_receiver.h"

namespace gemmd {

// Thread-safe.
class InlinePayload {
 public:
  // Takes memory of the device's for every inline plane; errors are AllocateOperand()'s.
  // REQUIRES: `problem` is what ValidateHeader() made of the call.
  static absl::StatusOr<std::unique_ptr<InlinePayload>> Create(const MatmulCall& call,
                                                               const Problem& problem,
                                                               Device* device);

  // Copies the chunk to its place. INVALID_ARGUMENT: the request has no such plane inline, or
  // these bytes came before, or they lie beyond it.
  absl::Status Receive(const PayloadChunk& chunk);

  // Whether every byte is there.
  bool complete() const;
  // What remains to be said once nothing more will come. INVALID_ARGUMENT: a plane lacks
  // bytes, or a scale is negative, infinite or no number.
  absl::Status Check() const;

  std::uint64_t received_bytes() const;
  // Addresses of the planes; they stay valid as long as this. `d` is empty.
  HostBuffers buffers() const;

 private:
  static constexpr std::size_t kPlanes = 2;  // data and scales
  using Planes = std::array<std::unique_ptr<PlaneReceiver>, kPlanes>;

  InlinePayload() = default;
  absl::Status Add(OperandName operand, PlaneName plane, const MatrixLayout& layout,
                   Device* device);
  const void* DataOf(OperandName operand, PlaneName plane) const;

  std::array<Planes, kOperandCount> operands_;  // null: not inline, or there is none
};

}  // namespace gemmd
