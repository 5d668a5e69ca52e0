// Decodes an operand in device memory to lines of real numbers, as kernels of bf16, f16, f32 and
// f64 take them. Each quantized format of base/numbers/quant/README.md is an operand, and so are
// f32, f16 and bf16 ones.
//
// An element's worth is split as the CPU's kernels split it (cpu/line_decoder.h):
//
//     ((code - zero point) * block factor + block offset) * line factor
//
// The line factor is the scale itself where all of K has one scale, else the power of two of the
// line's largest scale or offset; so block factors are below 2 and no value overflows. It has the
// scale of the tensor too, and is then a power of two times that, which is exact. Values are all
// but the line factor, in the arithmetic of f32 (f64 for f64), rounded once. A product of values is
// multiplied by both line factors when it is done.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/kernel.h"

namespace gemmd {

// Lines of the operand: rows of op(A), columns of op(B). All addresses are in device memory.
struct Dequantization {
  // The operand. Element (line, k) is code line * line_stride + k * k_stride, packed as
  // base/numbers/quant/packed_codes.h says.
  DataType element{};
  Scaling scaling;
  std::int64_t lines = 0;
  std::int64_t k = 0;
  const void* codes = nullptr;
  std::uint64_t codes_bytes = 0;  // up to and with the last code
  std::int64_t line_stride = 0;
  std::int64_t k_stride = 1;
  // Null where the scaling has none.
  const void* scales = nullptr;
  const void* zero_points = nullptr;
  const float* tensor_scale = nullptr;
  const void* offsets = nullptr;
  std::int64_t scale_lines = 0;  // the lines that scales were made for; 0: `lines`

  // The result.
  DataType output{};       // kBf16, kF16, kF32 or kF64
  void* values = nullptr;  // value (line, k) is at line * DequantizedPitch(k) + k
  // The line factors, one f32 a line, without and with the scale of the tensor. Both are null where
  // the operand has no scales, and one address where it has no scale of the tensor.
  float* line_scales = nullptr;
  float* line_factors = nullptr;
};

// Returns whether values have a block factor: else it is 1.
inline bool HasBlockFactors(const Scaling& scaling, std::int64_t k) {
  return scaling.has_scales &&
         (scaling.k_blocks(k) > 1 || scaling.has_tensor_scale || scaling.has_offsets);
}

// Values from line to line: whole lines of 128 bytes of bf16.
constexpr std::int64_t DequantizedPitch(std::int64_t k) { return (k + 63) / 64 * 64; }

// Queues on target.stream, or runs to its end in *target.emulator. Thread-safe.
// INVALID_ARGUMENT: a field is out of its range; the message names it, its value and the limit.
// UNIMPLEMENTED: target.stream without CUDA in this build. INTERNAL: the launch failed.
absl::Status LaunchDequantize(const Dequantization& dequantization, const LaunchTarget& target);

}  // namespace gemmd
