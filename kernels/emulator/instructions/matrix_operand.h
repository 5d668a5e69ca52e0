// A matrix in shared memory, as a descriptor of wgmma or of tcgen05 describes it: elements of 8, 16
// or 32 bits, 32 bytes of K deep.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/emulator/arithmetic/product_block.h"
#include "kernels/emulator/machine/call_site.h"
#include "kernels/emulator/machine/machine.h"
#include "kernels/emulator/memory/tensor_map.h"

namespace gemmd::emulator {

// Lines are rows of M or of N, one block of K each.
struct MatrixOperand {
  std::uint32_t start;    // with the block's rank
  std::uint32_t leading;  // bytes
  std::uint32_t stride;   // bytes
  Swizzle swizzle;
  bool is_mn_major;
  std::uint32_t element_bytes;

  // Where 16 bytes of elements lie that are side by side: the `chunk`th of K of line `index`, or
  // MN-major the `chunk`th of lines of k `index`.
  std::uint32_t ChunkAddress(std::uint32_t index, std::uint32_t chunk) const;
};

// The form that an instruction gives an operand, besides its descriptor.
struct OperandForm {
  std::uint32_t element_bytes;
  bool is_mn_major;
};

MatrixOperand DecodeWgmmaMatrix(std::uint64_t descriptor, const OperandForm& form,
                                std::uint32_t rank, const CallSite& site);
MatrixOperand DecodeTcgen05Matrix(std::uint64_t descriptor, const OperandForm& form,
                                  std::uint32_t rank, const CallSite& site);

// The running thread issues a read by `what` of all its bytes, done at `step` of `agent`.
void CheckMatrixRead(const MatrixOperand& operand, std::uint32_t lines, Agent agent, Step step,
                     const char* what, const CallSite& site);

// REQUIRES: Element has operand.element_bytes.
template <typename Element>
std::vector<OperandLine<Element>> LoadLines(Cluster& cluster, const MatrixOperand& operand,
                                            std::uint32_t lines);

}  // namespace gemmd::emulator
