// The inline planes of one request, while their bytes arrive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/admission/matmul_call.h"
#include "server/device/chunk_limit.h"
#include "server/device/device.h"
#include "server/device/plane_receiver.h"

namespace gemmd {

// Thread-safe.
class InlinePayload {
 public:
  // Takes memory by `allocate` for every inline plane; errors are its. Planes of operands without
  // elements are zeros, for which no bytes come.
  // REQUIRES: `problem` and `stack` are what ValidateHeader() and ValidateBatch() made of the call.
  using Allocate = absl::FunctionRef<absl::StatusOr<HostPiece>(std::uint64_t bytes)>;
  static absl::StatusOr<std::unique_ptr<InlinePayload>> Create(const MatmulCall& call,
                                                               const Problem& problem,
                                                               const Stack& stack,
                                                               Allocate allocate);
  // The bytes of each plane that Create() would allocate.
  static std::vector<std::uint64_t> PlaneBytes(const MatmulCall& call, const Problem& problem,
                                               const Stack& stack);

  // Copies the chunk to its place. INVALID_ARGUMENT: the request has no such plane inline, or
  // these bytes came before, or they lie beyond it, or there are too many chunks for their bytes.
  absl::Status Receive(const PayloadChunk& chunk);

  // Returns whether every byte has arrived.
  bool complete() const;
  // Checks the payload once nothing more will come. INVALID_ARGUMENT: a plane lacks bytes, or a
  // scale is negative, infinite or no number, or a zero point out of range.
  absl::Status Check() const;

  std::uint64_t received_bytes() const;
  // A plane's bytes, which the request owns; null: it is not inline.
  char* memory(WorkPlane plane) const;
  // Addresses of the planes; they stay valid as long as this. `d` is empty.
  HostBuffers buffers() const;

 private:
  InlinePayload() = default;
  // Checks the values of what scales an operand.
  absl::Status CheckScales(const OperandPlane& plane) const;

  ChunkLimit chunks_{"payload"};
  Problem problem_;
  Planes<std::unique_ptr<PlaneReceiver>> planes_;  // null: not inline, or there is none
};

}  // namespace gemmd
