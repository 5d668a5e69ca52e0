// Host memory that holds one plane, in pieces: a device fills it where it can, and the
// wire sends it from there, so that no byte of a result is copied in between.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/gemm.h"
#include "server/device/memory_budget.h"

namespace gemmd {

// Memory of its owner's; copies share it.
struct HostPiece {
  char* data = nullptr;
  std::uint64_t size_bytes = 0;
  std::shared_ptr<void> owner;  // gives the memory back when the last copy is gone
};

// The bytes of a plane in order, piece after piece.
using HostBuffer = std::vector<HostPiece>;

std::uint64_t SizeOf(const HostBuffer& buffer);

// One piece, aligned to 64 bytes at least; empty if the host has no memory. Bytes are
// unspecified.
HostBuffer AllocateHostBuffer(std::uint64_t bytes);

// Zeroes the bytes between the layout's lines. REQUIRES: the buffer holds size_bytes().
void ClearPadding(const MatrixLayout& layout, const HostBuffer& buffer);

}  // namespace gemmd
