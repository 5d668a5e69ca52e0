// From a thread's sums to D.
#pragma once

#include "kernels/epilogue/arithmetic.h"
#include "kernels/hopper/common/f32_params.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::hopper {
inline namespace GEMMD_BACKEND {

GEMMD_DEVICE bool IsFinite(float value) {
  return (ptx::BitsOfFloat(value) & 0x7f800000) != 0x7f800000;
}

// A thread's sums are those of wgmma's accumulators: register i is row RowOf(i), column ColumnOf(i)
// from the first.
GEMMD_DEVICE constexpr std::int32_t RowOf(int i) { return i / 2 % 2 * 8; }
GEMMD_DEVICE constexpr std::int32_t ColumnOf(int i) { return i / 4 * 8 + i % 2; }

// Elements of a line from `k` on, kCount of them, as doubles. With `has_units` a line is read in
// units of 16 bytes.
template <int kCount>
GEMMD_DEVICE void LoadElements(const float* line, std::int64_t k, std::int64_t k_stride,
                               bool has_units, double (&to)[kCount]) {
  if (kCount == 4 && has_units) {
    const auto unit = ptx::LoadGlobal(reinterpret_cast<const ptx::Vector4*>(line + k));
    const std::uint32_t words[4] = {unit.x, unit.y, unit.z, unit.w};
    GEMMD_UNROLL
    for (int i = 0; i < kCount; ++i) to[i] = ptx::FloatOfBits(words[i]);
    return;
  }
  GEMMD_UNROLL
  for (int i = 0; i < kCount; ++i) to[i] = ptx::LoadGlobal(line + (k + i) * k_stride);
}

GEMMD_DEVICE bool HasUnits(const Lines& lines) {
  return lines.k_stride == 1 && lines.line_stride % 4 == 0 &&
         reinterpret_cast<std::uint64_t>(lines.data) % 16 == 0;
}

// Makes sums of a thread anew from the operands themselves, in f64: kSums of them, the first at
// (row, column), of which those outside count for nothing.
//
// Operands may be full of infinities, so a product's time must not depend on them by more than some
// factor: an element is loaded and converted once for several sums, and their chains run side by
// side.
template <int kSums>
class ExactSums {
 public:
  GEMMD_DEVICE ExactSums(const F32Params& params, std::int32_t row, std::int32_t column)
      : params_(params),
        rows_have_units_(HasUnits(params.row_lines)),
        columns_have_units_(HasUnits(params.column_lines)) {
    GEMMD_UNROLL
    for (int i = 0; i < kRows; ++i) rows_[i] = Line(params.row_lines, row + i * 8, params.m);
    GEMMD_UNROLL
    for (int i = 0; i < kColumns; ++i) {
      columns_[i] = Line(params.column_lines, column + i / 2 * 8 + i % 2, params.n);
    }
    std::int64_t k = 0;
    GEMMD_NO_UNROLL
    for (; k + 4 <= params.k; k += 4) Add<4>(k);
    GEMMD_NO_UNROLL
    for (; k < params.k; ++k) Add<1>(k);
  }

  GEMMD_DEVICE float sum(int i) const { return static_cast<float>(sums_[i]); }

 private:
  static constexpr int kRows = 2;
  static constexpr int kColumns = kSums / kRows;

  GEMMD_DEVICE static const float* Line(const Lines& lines, std::int32_t index,
                                        std::int32_t count) {
    return lines.data + (index < count ? index : count - 1) * lines.line_stride;
  }

  template <int kCount>
  GEMMD_DEVICE void Add(std::int64_t k) {
    double x[kRows][kCount];
    GEMMD_UNROLL
    for (int i = 0; i < kRows; ++i) {
      LoadElements(rows_[i], k, params_.row_lines.k_stride, rows_have_units_, x[i]);
    }
    GEMMD_UNROLL
    for (int column = 0; column < kColumns; ++column) {
      double y[kCount];
      LoadElements(columns_[column], k, params_.column_lines.k_stride, columns_have_units_, y);
      GEMMD_UNROLL
      for (int row = 0; row < kRows; ++row) {
        double& sum = sums_[column / 2 * 4 + row * 2 + column % 2];
        GEMMD_UNROLL
        for (int i = 0; i < kCount; ++i) sum += x[row][i] * y[i];
      }
    }
  }

  const F32Params& params_;
  const bool rows_have_units_;
  const bool columns_have_units_;
  const float* rows_[kRows];
  const float* columns_[kColumns];
  double sums_[kSums] = {};
};

// Replaces those sums that are not finite, because an operand's element is not, or has no parts
// (parts.h), or because the sum is too large. In f64 products are exact, and infinities and NaN
// give the sum that they give in f32.
template <int kSums, int kPitch>
GEMMD_DEVICE void SumAgain(const F32Params& params, ptx::SharedAddress waiting, std::int32_t row,
                           std::int32_t column) {
  constexpr int kTogether = kSums < 16 ? kSums : 16;
  GEMMD_NO_UNROLL
  for (int first = 0; first < kSums; first += kTogether) {
    const auto place = [&](int i) {
      return waiting + static_cast<std::uint32_t>((first + i) * kPitch);
    };
    float not_finite = 0;
    GEMMD_UNROLL
    for (int i = 0; i < kTogether; ++i) not_finite += ptx::LoadShared<float>(place(i)) * 0.0F;
    if (IsFinite(not_finite)) continue;
    const ExactSums<kTogether> exact(params, row, column + ColumnOf(first));
    GEMMD_UNROLL
    for (int i = 0; i < kTogether; ++i) {
      if (!IsFinite(ptx::LoadShared<float>(place(i)))) ptx::StoreShared(place(i), exact.sum(i));
    }
  }
}

// Compiled without contraction, so that the device, the emulator and kernels/epilogue round the
// same operations.
GEMMD_DEVICE float FinishElement(const F32Params& params, float value, std::int32_t row,
                                 std::int32_t column) {
  if (!params.has_epilogue) return value;
  value = params.alpha * value;
  if (params.c != nullptr) {
    value += params.beta * ptx::LoadGlobal(params.c + row * params.c_row_stride +
                                           column * params.c_column_stride);
  }
  if (params.bias != nullptr) value += ptx::LoadGlobal(params.bias + row);
  return epilogue::Activate(params.activation, value);
}

// `waiting`: where this thread's sums may wait in shared memory, kPitch bytes apart. A warp's
// stores fill units of 32 bytes, whichever way D's lines run.
template <int kSums, int kPitch>
GEMMD_DEVICE void StoreSums(const F32Params& params, float (&sums)[kSums],
                            ptx::SharedAddress waiting, std::int32_t row, std::int32_t column) {
  float* const d = params.d + row * params.d_row_stride + column * params.d_column_stride;
  const auto is_inside = [&](int i) {
    return row + RowOf(i) < params.m && column + ColumnOf(i) < params.n;
  };
  const auto place = [&](int i) {
    return d + RowOf(i) * params.d_row_stride + ColumnOf(i) * params.d_column_stride;
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
  if (!IsFinite(not_finite)) SumAgain<kSums, kPitch>(params, waiting, row, column);
  GEMMD_NO_UNROLL
  for (int i = 0; i < kSums; ++i) {
    const auto value = ptx::LoadShared<float>(waiting + static_cast<std::uint32_t>(i * kPitch));
    if (!is_inside(i)) continue;
    ptx::StoreGlobal(place(i), FinishElement(params, value, row + RowOf(i), column + ColumnOf(i)));
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper
