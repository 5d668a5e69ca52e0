// The registry entries of products by packed weights of 4, 6 and 8 bits: sm90/packed_int4,
// sm90/packed_mxfp4, sm90/packed_nvfp4, sm90/packed_int8, sm90/packed_fp8, sm90/packed_mxfp8 and
// sm90/packed_mxfp6.
//
// They take A of f16 or bf16, that by mxfp4 and nvfp4 of bf16 alone, K-major, its lines at
// multiples of 16 bytes, and B of the formats that packing.h lists, packed; they write f16, bf16 or
// f32 in either order with any epilogue. They run on sm_90a and on emulated devices. A config is
// one of tilings.h; bits depend on the row, B, N and K alone, whatever the tiling.
//
// Error: |D - exact| <= (K + 32) 2^-23 (|A| |B|) elementwise, as of every kernel that sums in f32
// (kernels/verify/error_bound.h), where B is the decoded weights. With u = 2^-24: codes less their
// zero points, integers of at most 255, and floats of at most 8 bits are exact in f16 and bf16, so
// products are exact. A step of 16 truncates at most 18 u times the magnitudes it adds
// (half/wgmma_gemm_registry.h), eight of them in a group of 128: 144 u. A group more rounds the sum
// once: K / 128 u. Together at most (144 + K / 128) u, which is below 2 (K + 32) u from K = 64 on,
// where a group has four steps. A part of 64 has four steps and one of 32 two, 72 u and 36 u, and
// a group rounds once for each: at most (76 + K / 128) u. An offset's part has one rounding more,
// and magnitudes are those of code times scale and of the offset: at most (148 + K / 128) u.
// A quarter of E2M1 times E8M0 is exact in bf16, and so is E2M1 times E4M3, so products are exact;
// K / 16 steps of 18 u, and one u of nvfp4's tensor scale, are below 2 (K + 32) u.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendHopperQuant(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
