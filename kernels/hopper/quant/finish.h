// From a sum to an element of D.
#pragma once

#include "kernels/epilogue/arithmetic.h"
#include "kernels/hopper/quant/params.h"
#include "kernels/ptx/global_memory.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

// Compiled without contraction, so that every tiling, the emulator and kernels/epilogue round the
// same operations.
template <class Out>
GEMMD_DEVICE void FinishAs(const QuantParams& params, float sum, std::int32_t row,
                           std::int32_t column) {
  using Storage = typename Out::Storage;
  float value = sum;
  if (params.has_epilogue) {
    value = params.alpha * sum;
    if (params.c != nullptr) {
      value += params.beta * Out::Widen(ptx::LoadGlobal(static_cast<const Storage*>(params.c) +
                                                        row * params.c_row_stride +
                                                        column * params.c_column_stride));
    }
    if (params.bias != nullptr) {
      value += Out::Widen(ptx::LoadGlobal(static_cast<const Storage*>(params.bias) + column));
    }
    value = epilogue::Activate(params.activation, value);
  }
  ptx::StoreGlobal(
      static_cast<Storage*>(params.d) + row * params.d_row_stride + column * params.d_column_stride,
      Out::Narrow(value));
}

// Writes nothing outside D.
GEMMD_DEVICE void Finish(const QuantParams& params, float sum, std::int32_t row,
                         std::int32_t column) {
  if (row >= params.m || column >= params.n) return;
  if (params.d_type == DataType::kBf16) {
    FinishAs<epilogue::Bf16>(params, sum, row, column);
  } else if (params.d_type == DataType::kF16) {
    FinishAs<epilogue::F16>(params, sum, row, column);
  } else {
    FinishAs<epilogue::F32>(params, sum, row, column);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
