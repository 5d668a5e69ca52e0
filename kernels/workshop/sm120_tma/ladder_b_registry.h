// Registry entries of ladder B: sm120/bcf_dbf_rw, k_stages, tma_loads, tma_r_32, tma_r_64, tma_rw,
// pair_boxes, warp_release, warps_64x64, warps_64x64_k64, tma_rw_64x64.
//
// Each takes f16 or bf16 operands, accumulated in f32, row-major, not transposed, with 16-byte
// strides and no epilogue, and writes their own type. They run on CUDA devices of compute
// capability 9.0 and 12.0, for which they are built, and on emulated devices, with at most
// the 99 KB of shared memory that a block of sm_120 may have.
//
// D may be a view: no kernel writes beyond its columns. (A TMA store does so, in units of 16
// bytes, so steps that store by TMA let threads store the tiles where N ends inside such a unit.)
//
// Arithmetic: mma.sync.m16n8k16 over K in order, as in ladder A: the same bits and the same
// error bound, ladder_a_registry.h.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendLadderB(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
