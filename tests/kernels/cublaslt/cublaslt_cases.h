// Every combination of types that the vendor entries take, and what error each may have.
#pragma once

#include <string>
#include <vector>

#include "kernels/problem.h"
#include "tests/kernels/cublaslt/landed.h"

namespace gemmd::testing {

struct VendorCase {
  const char* kernel;
  DataType a;
  DataType b;
  DataType d;
  DataType accumulate;
  ErrorBound bound;
};

// The error bounds are those that cublaslt_registry.h states.
inline std::vector<VendorCase> VendorCases() {
  using T = DataType;
  ErrorBound f64;
  f64.per_term = 0x1p-53;
  ErrorBound f32;
  f32.per_term = 0x1p-24;
  f32.gelu = 0x1p-17;
  ErrorBound half = f32;
  half.rounds_before_bias = true;
  ErrorBound tf32 = f32;
  tf32.fixed = 0x1p-9;  // each operand cut to 11 bits
  ErrorBound f16_sum;
  f16_sum.per_term = 0x1p-11;
  ErrorBound exact;
  exact.exact = true;
  ErrorBound promoted = f32;
  promoted.fixed = 0x1p-11;
  ErrorBound fast;
  fast.per_term = 0x1p-17;
  fast.fixed = 0x1p-11;
  std::vector<VendorCase> cases = {
      {"cublaslt/f64", T::kF64, T::kF64, T::kF64, T::kF64, f64},
      {"cublaslt/f32", T::kF32, T::kF32, T::kF32, T::kF32, f32},
      {"cublaslt/tf32", T::kTf32, T::kTf32, T::kF32, T::kF32, tf32},
      {"cublaslt/int8", T::kInt8, T::kInt8, T::kInt32, T::kInt32, exact}};
  for (const T out : {T::kF16, T::kF32, T::kBf16}) {
    cases.push_back({"cublaslt/f16", T::kF16, T::kF16, out, T::kF32, half});
    cases.push_back({"cublaslt/f16", T::kF16, T::kF16, out, T::kF16, f16_sum});
    cases.push_back({"cublaslt/bf16", T::kBf16, T::kBf16, out, T::kF32, half});
    cases.push_back({"cublaslt/int8", T::kInt8, T::kInt8, out, T::kInt32, f32});
    for (const auto& [a, b] : {std::pair<T, T>{T::kFp8E4M3, T::kFp8E4M3},
                               {T::kFp8E4M3, T::kFp8E5M2},
                               {T::kFp8E5M2, T::kFp8E4M3}}) {
      cases.push_back({"cublaslt/fp8_promoted", a, b, out, T::kF32, promoted});
      cases.push_back({"cublaslt/fp8_fast", a, b, out, T::kF32, fast});
    }
  }
  return cases;
}

inline std::string Title(const VendorCase& c) {
  std::string title = std::string(c.kernel).substr(9) + " " + std::string(Name(c.a));
  if (c.b != c.a) title += "," + std::string(Name(c.b));
  title += "->" + std::string(Name(c.d));
  if (c.accumulate == DataType::kF16) title += " f16 sum";
  return title;
}

}  // namespace gemmd::testing
