// Registry entries of ladder A: sm80/a01a, a01b, a02, a03a, a03b, a04, a05, a06.
//
// Each takes f16 operands (accumulated in f32, or in f16 where the problem asks) or bf16
// ones (f32), row-major, not transposed, with 16-byte strides and no epilogue, and writes
// their own type. They run on CUDA devices from sm_80, where a block may have their shared memory
// (a03a to a05: 144 KB, which sm_86, sm_89 and sm_120 have not), and on emulated devices.
//
// Arithmetic: mma.sync.m16n8k16 over K in order, whatever the step; the result is rounded
// once to the output type. A row's bits depend on N, K and types alone, and are the same
// for every step. Error, f32 accumulation: each instruction truncates 17 terms at 2^-25
// of the largest and its sum at 2^-24, so |D - exact| <= (K / 16 + 1) * 18 * 2^-24 *
// (|A| |B|) elementwise, plus half a unit in the last place of the output. With an f16
// accumulator each instruction also rounds to f16: (K / 16 + 1) * 2^-11 * (|A| |B|) more.
#pragma once

#include <memory>
#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

void AppendLadderA(std::vector<std::unique_ptr<const Kernel>>* kernels);

}  // namespace gemmd
