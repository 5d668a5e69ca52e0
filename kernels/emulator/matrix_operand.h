// A matrix of 16-bit elements in shared memory, as a wgmma descriptor describes it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/emulator/call_site.h"
#include "kernels/emulator/machine.h"
#include "kernels/emulator/product_block.h"
#include "kernels/emulator/tensor_map.h"

namespace gemmd::emulator {

// Lines are rows of M or of N, 16 elements of K each.
struct MatrixOperand {
  std::uint32_t start;    // with the block's rank
  std::uint32_t leading;  // bytes
  std::uint32_t stride;   // bytes
  Swizzle swizzle;
  bool is_mn_major;

  // Where 8 elements lie that are side by side: of K from 8 * `chunk` of line `index`, or
  // MN-major of lines from 8 * `chunk` of k `index`.
  std::uint32_t ChunkAddress(std::uint32_t index, std::uint32_t chunk) const;
};

MatrixOperand DecodeMatrix(std::uint64_t descriptor, bool is_mn_major, std::uint32_t rank,
                           const CallSite& site);

// The running thread issues a read of all its bytes, done at `step` of `agent`.
void CheckMatrixRead(const MatrixOperand& operand, std::uint32_t lines, Agent agent, Step step,
                     const CallSite& site);

std::vector<HalfLine> LoadLines(Cluster& cluster, const MatrixOperand& operand,
                                std::uint32_t lines);

}  // namespace gemmd::emulator
