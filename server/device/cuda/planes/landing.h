// The layout of a problem's operands in the device's memory: the service owns it, so that kernels
// see aligned lines whatever the client sent. Pure functions of the problem.
#pragma once

#include <cstdint>

#include "kernels/gemm.h"
#include "server/device/device.h"
#include "server/device/panel.h"
#include "server/device/planes.h"

namespace gemmd {

// The problem as kernels will see it:
//   - Lines start at multiples of 128 bytes where that costs little, else of 16: TMA and
//     vector loads need 16, and a line that starts within a 128-byte sector group costs
//     Hopper a third of the bandwidth (docs/lab/hopper-ragged.md).
//   - 8-bit and tf32 operands are K-major: wgmma and cuBLASLt take no other.
//   - 8-bit problems have M, N and K rounded up to 16, which cuBLASLt asks for; the
//     operands are zero there, and what that adds to D is never copied out.
//   - Quantized operands that are decoded (IsDequantized()) lie as they were sent, since their
//     decoder reads every layout.
//   - A packed B lies as ResidentPlaneOf() says; its A is K-major.
Problem LandedProblem(const Problem& problem);

// Returns whether the operand is transposed on its way: its landed order is the other one.
inline bool IsTransposed(const MatrixLayout& sent, const MatrixLayout& landed) {
  return sent.order != landed.order;
}

// Bytes of the plane with whole lines.
std::uint64_t LandedBytes(const MatrixLayout& landed);

// The layout that an operand has between its copy and its transposition: as sent, with
// lines at multiples of 16 bytes.
MatrixLayout ScratchLayout(const MatrixLayout& sent);

// The plane as copies see it: elements of less than a byte, of which lines may begin anywhere in
// one, are one line of bytes.
MatrixLayout CopiedLayout(const MatrixLayout& layout);

// The layout that the copies of a plane fill.
inline MatrixLayout InputLayout(const MatrixLayout& sent, const MatrixLayout& landed) {
  return IsTransposed(sent, landed) ? ScratchLayout(sent) : CopiedLayout(landed);
}

// The places of one work's parts in one allocation, in bytes from its start. Parts that the problem
// does not have are empty. Inputs come first, so that those of a small work travel in one copy.
struct AllocationLayout {
  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t end() const { return offset + bytes; }
    // Null in none, where all of the work lies elsewhere.
    char* In(char* block) const { return block == nullptr ? nullptr : block + offset; }
    const char* In(const char* block) const { return block == nullptr ? nullptr : block + offset; }
  };
  // The destinations of the copies: a transposed operand's scratch, else the plane itself.
  Planes<Part> inputs;
  std::uint64_t inputs_bytes = 0;  // up to the last input
  Planes<Part> landed;             // equal to the input where nothing is transposed
  Part d;
  Part workspace;
  std::uint64_t total_bytes = 0;
};

AllocationLayout LayOutBlock(const Problem& sent, const Problem& landed, const Residency& resident,
                             std::uint64_t workspace_bytes);

}  // namespace gemmd
