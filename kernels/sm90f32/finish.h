// From a thread's sums to D.
#pragma once

#include "kernels/epilogue/arithmetic.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/sm90f32/params.h"

namespace gemmd::sm90f32 {
inline namespace GEMMD_BACKEND {

// An element of op(A) * op(B) from the operands themselves: for sums that are not finite, because
// an operand's element is not, or has no parts (parts.h), or because the sum is too large. Products
// are exact in f64, and infinities and NaN make of the sum what they make of it in f32.
GEMMD_DEVICE float SumOfElements(const ProductParams& params, std::int32_t row,
                                 std::int32_t column) {
  const float* const x = params.row_lines.data + row * params.row_lines.line_stride;
  const float* const y = params.column_lines.data + column * params.column_lines.line_stride;
  double sum = 0;
  GEMMD_NO_UNROLL
  for (std::int64_t k = 0; k < params.k; ++k) {
    sum += static_cast<double>(ptx::LoadGlobal(x + k * params.row_lines.k_stride)) *
           static_cast<double>(ptx::LoadGlobal(y + k * params.column_lines.k_stride));
  }
  return static_cast<float>(sum);
}

GEMMD_DEVICE bool IsFinite(float value) {
  return (ptx::BitsOfFloat(value) & 0x7f800000) != 0x7f800000;
}

// Compiled without contraction, so that the device, the emulator and kernels/epilogue round the
// same operations.
GEMMD_DEVICE float FinishElement(const ProductParams& params, float value, std::int32_t row,
                                 std::int32_t column) {
  if (!IsFinite(value)) value = SumOfElements(params, row, column);
  if (!params.has_epilogue) return value;
  value = params.alpha * value;
  if (params.c != nullptr) {
    value += params.beta * ptx::LoadGlobal(params.c + row * params.c_row_stride +
                                           column * params.c_column_stride);
  }
  if (params.bias != nullptr) value += ptx::LoadGlobal(params.bias + row);
  return epilogue::Activate(params.activation, value);
}

// A thread's sums are those of wgmma's accumulators: register i is row i / 2 % 2 * 8, column
// i / 4 * 8 + i % 2 from the first. `waiting`: where this thread's sums may wait in shared memory,
// kPitch bytes apart. A warp's stores fill units of 32 bytes, whichever way D's lines run.
template <int kSums, int kPitch>
GEMMD_DEVICE void StoreSums(const ProductParams& params, float (&sums)[kSums],
                            ptx::SharedAddress waiting, std::int32_t row, std::int32_t column) {
  float* const d = params.d + row * params.d_row_stride + column * params.d_column_stride;
  const auto is_inside = [&](int i) {
    return row + i / 2 % 2 * 8 < params.m && column + i / 4 * 8 + i % 2 < params.n;
  };
  const auto place = [&](int i) {
    return d + i / 2 % 2 * 8 * params.d_row_stride + (i / 4 * 8 + i % 2) * params.d_column_stride;
  };
  float not_finite = 0;  // NaN if one of them is not
  GEMMD_UNROLL
  for (int i = 0; i < kSums; ++i) not_finite += sums[i] * 0.0F;
  if (!params.has_epilogue && IsFinite(not_finite)) {
    GEMMD_UNROLL
    for (int i = 0; i < kSums; ++i) {
      if (is_inside(i)) ptx::StoreGlobal(place(i), sums[i]);
    }
    return;
  }
  // One by one, through memory that takes an index, so that the code for an element exists once.
  GEMMD_UNROLL
  for (int i = 0; i < kSums; ++i) {
    ptx::StoreShared(waiting + static_cast<std::uint32_t>(i * kPitch), sums[i]);
  }
  GEMMD_NO_UNROLL
  for (int i = 0; i < kSums; ++i) {
    const auto value = ptx::LoadShared<float>(waiting + static_cast<std::uint32_t>(i * kPitch));
    if (!is_inside(i)) continue;
    ptx::StoreGlobal(place(i),
                     FinishElement(params, value, row + i / 2 % 2 * 8, column + i / 4 * 8 + i % 2));
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm90f32
