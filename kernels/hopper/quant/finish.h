// From a sum to an element of D.
#pragma once

#include "kernels/epilogue/arithmetic.h"
#include "kernels/hopper/quant/packed.h"
#include "kernels/hopper/quant/params.h"
#include "kernels/ptx/global_memory.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

// The factor of a chain's sums: that of its values, times the tensor's scale where there is one.
// To be called behind the wait for the preceding grid, which may write the scale.
template <class Decoder>
GEMMD_DEVICE float SumFactor(const QuantParams& params) {
  if constexpr (Decoder::kFormat == CodeFormat::kNvfp4) {
    return Decoder::kSumFactor * ptx::LoadGlobal(params.tensor_scale);
  } else {
    return Decoder::kSumFactor;
  }
}

// Compiled without contraction, so that every tiling, the emulator and kernels/epilogue round the
// same operations.
template <class Out>
GEMMD_DEVICE float FinishedValue(const QuantParams& params, float sum, std::int32_t row,
                                 std::int32_t column) {
  using Storage = typename Out::Storage;
  float value = params.alpha * sum;
  if (params.c != nullptr) {
    value += params.beta * Out::Widen(ptx::LoadGlobal(static_cast<const Storage*>(params.c) +
                                                      row * params.c_row_stride +
                                                      column * params.c_column_stride));
  }
  if (params.bias != nullptr) {
    value += Out::Widen(ptx::LoadGlobal(static_cast<const Storage*>(params.bias) + column));
  }
  return epilogue::Activate(params.activation, value);
}

template <class Out>
GEMMD_DEVICE typename Out::Storage* PlaceOf(const QuantParams& params, std::int32_t row,
                                            std::int32_t column) {
  return static_cast<typename Out::Storage*>(params.d) + row * params.d_row_stride +
         column * params.d_column_stride;
}

// Calls f(type) for D's type.
template <class F>
GEMMD_DEVICE void WithTypeOfD(const QuantParams& params, const F& f) {
  if (params.d_type == DataType::kBf16) {
    f(epilogue::Bf16());
  } else if (params.d_type == DataType::kF16) {
    f(epilogue::F16());
  } else {
    f(epilogue::F32());
  }
}

// An element, with the epilogue. A launch meets this code cold, so it is to exist once: callers
// loop over their elements.
GEMMD_DEVICE void FinishElement(const QuantParams& params, float sum, std::int32_t row,
                                std::int32_t column) {
  if (row >= params.m || column >= params.n) return;
  WithTypeOfD(params, [&](auto type) {
    using Out = decltype(type);
    ptx::StoreGlobal(PlaceOf<Out>(params, row, column),
                     Out::Narrow(FinishedValue<Out>(params, sum, row, column)));
  });
}

// Sums as they are, rounded to D's type.
template <int kCount>
struct alignas(4 * kCount) SumsOfRow {
  float value[kCount];
};
GEMMD_DEVICE void StoreElement(const QuantParams& params, float sum, std::int32_t row,
                               std::int32_t column) {
  if (row >= params.m || column >= params.n) return;
  WithTypeOfD(params, [&](auto type) {
    using Out = decltype(type);
    ptx::StoreGlobal(PlaceOf<Out>(params, row, column), Out::Narrow(sum));
  });
}

// Four neighbours of a row, in one store where D's layout has one.
GEMMD_DEVICE void StoreFour(const QuantParams& params, const SumsOfRow<4>& sums, std::int32_t row,
                            std::int32_t column) {
  if (row >= params.m || column >= params.n) return;
  WithTypeOfD(params, [&](auto type) {
    using Out = decltype(type);
    using Storage = typename Out::Storage;
    struct alignas(4 * sizeof(Storage)) Four {
      Storage value[4];
    };
    Storage* const d = PlaceOf<Out>(params, row, column);
    Four four;
    GEMMD_UNROLL
    for (int i = 0; i < 4; ++i) four.value[i] = Out::Narrow(sums.value[i]);
    if (params.d_column_stride == 1 && column + 4 <= params.n &&
        reinterpret_cast<std::uint64_t>(d) % sizeof(Four) == 0) {
      ptx::StoreGlobal(reinterpret_cast<Four*>(d), four);
      return;
    }
    GEMMD_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (column + i < params.n) ptx::StoreGlobal(d + i * params.d_column_stride, four.value[i]);
    }
  });
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
