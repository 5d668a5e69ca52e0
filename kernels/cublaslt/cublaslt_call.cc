#include "kernels/cublaslt/cublaslt_call.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "base/numbers/float_bits.h"
#include "kernels/cublaslt/block_scales.h"
#include "kernels/epilogue/epilogue.h"

namespace gemmd::cublaslt {
namespace {

constexpr std::int64_t kAlignmentBits = 128;  // 16 bytes
constexpr std::int64_t kByteExtent = 16;      // what tensor cores want of 8-bit dimensions
// An int32 holds K * 128 * 128 up to a K of 131071, and server/admission refuses more. A device may
// pad K with zeros, which add nothing, up to this.
constexpr std::int64_t kMaxPaddedInt8K = 131072;
constexpr std::int64_t kMaxDimension = std::numeric_limits<std::int32_t>::max();

auto Fields(const CublasLtCall& c) {
  return std::tie(c.arithmetic, c.accumulate, c.a_type, c.b_type, c.d_type, c.transpose_a,
                  c.transpose_b, c.swaps_operands, c.has_c, c.is_product_only, c.a_scaling,
                  c.b_scaling, c.epilogue, c.m, c.n, c.k, c.lda, c.ldb, c.ldc, c.ldd);
}

bool IsFp8(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kFp8Promoted || arithmetic == Arithmetic::kFp8Fast ||
         arithmetic == Arithmetic::kFp8Blocks;
}

bool IsFp8(DataType type) { return type == DataType::kFp8E4M3 || type == DataType::kFp8E5M2; }

bool IsByte(Arithmetic arithmetic) { return arithmetic == Arithmetic::kInt8 || IsFp8(arithmetic); }

DataType OperandType(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kF64:
      return DataType::kF64;
    case Arithmetic::kF32:
      return DataType::kF32;
    case Arithmetic::kTf32:
      return DataType::kTf32;
    case Arithmetic::kF16:
      return DataType::kF16;
    case Arithmetic::kBf16:
      return DataType::kBf16;
    case Arithmetic::kInt8:
      return DataType::kInt8;
    default:
      return DataType::kFp8E4M3;
  }
}

bool HasEpilogue(const Epilogue& e) {
  return e.alpha != 1 || e.beta != 0 || e.has_bias || e.activation != Activation::kNone;
}

bool HasScales(const Problem& problem) {
  return problem.a_scaling != Scaling::kNone || problem.b_scaling != Scaling::kNone;
}

// The type that the bare product has in the workspace.
DataType ProductType(const Problem& problem) { return problem.accumulate; }

std::string TypeRejection(Arithmetic arithmetic, const Problem& problem) {
  if (IsFp8(arithmetic)) {
    if (!IsFp8(problem.a.type) || !IsFp8(problem.b.type)) {
      return "takes fp8_e4m3 and fp8_e5m2 operands";
    }
    if (problem.a.type == DataType::kFp8E5M2 && problem.b.type == DataType::kFp8E5M2) {
      return "takes fp8_e5m2 in one operand, not in both";
    }
  } else if (problem.a.type != OperandType(arithmetic) || problem.b.type != problem.a.type) {
    return absl::StrCat("takes ", Name(OperandType(arithmetic)), " operands");
  }
  const bool is_f16_sum = arithmetic == Arithmetic::kF16 && problem.accumulate == DataType::kF16;
  if (problem.accumulate != DefaultAccumulateType(problem.a.type) && !is_f16_sum) {
    return absl::StrCat("does not accumulate in ", Name(problem.accumulate));
  }
  if (HasScales(problem) && !IsByte(arithmetic)) return "takes no scales";
  if (arithmetic == Arithmetic::kFp8Blocks) return BlockScalesRejection(problem);
  if (!problem.a_scaling.scales_whole_lines() || !problem.b_scaling.scales_whole_lines()) {
    return "takes scales of operands or of whole lines";
  }
  return "";
}

std::string OutputRejection(Arithmetic arithmetic, const Problem& problem) {
  const DataType type = problem.d.type;
  const bool is_exact = arithmetic == Arithmetic::kInt8 && type == DataType::kInt32;
  if (is_exact) {
    if (HasEpilogue(problem.epilogue) || HasScales(problem)) {
      return "int32 output is the exact product: no scales, alpha, beta, bias or activation (ask "
             "for f32)";
    }
    return "";
  }
  const bool is_narrow_f32 =
      (arithmetic == Arithmetic::kF32 || arithmetic == Arithmetic::kTf32) && type != DataType::kF32;
  if (is_narrow_f32 || !EpilogueRejection(ProductType(problem), type).empty()) {
    return absl::StrCat("does not write ", Name(type));
  }
  return "";
}

std::string LayoutRejection(const char* name, const MatrixLayout& layout) {
  const std::int64_t unit = kAlignmentBits / SizeBits(layout.type);
  if (layout.leading_dimension % unit == 0) return "";
  return absl::StrCat("takes a leading dimension of ", name, " that is a multiple of ", unit,
                      ", not ", layout.leading_dimension);
}

std::string ByteRejection(const Problem& problem) {
  if (!problem.a_is_k_major()) return "takes a K-major A: each row of op(A) contiguous";
  if (!problem.b_is_k_major()) return "takes a K-major B: each column of op(B) contiguous";
  const auto check = [](const char* name, std::int64_t extent) {
    if (extent % kByteExtent == 0) return std::string();
    return absl::StrCat(name, " is ", extent, "; 8-bit operands need a multiple of ", kByteExtent);
  };
  std::string rejection = check("K", problem.k);
  if (!rejection.empty()) return rejection;
  return problem.d.order == Order::kRowMajor ? check("N, which runs fastest in D,", problem.n)
                                             : check("M, which runs fastest in D,", problem.m);
}

FusedEpilogue ToFused(const Epilogue& e) {
  switch (e.activation) {
    case Activation::kRelu:
      return e.has_bias ? FusedEpilogue::kReluBias : FusedEpilogue::kRelu;
    case Activation::kGeluTanh:
      return e.has_bias ? FusedEpilogue::kGeluBias : FusedEpilogue::kGelu;
    default:
      return e.has_bias ? FusedEpilogue::kBias : FusedEpilogue::kNone;
  }
}

// Returns whether a scale type of f16, which comes with f16 accumulation, holds the value.
bool IsExactInF16(double value) {
  return static_cast<double>(FromF16(ToF16(static_cast<float>(value)))) == value;
}

// Returns whether the library fuses the problem's epilogue, by the "supported" tables in its
// documentation of cublasLtMatmul().
bool IsFusible(Arithmetic arithmetic, const Problem& problem) {
  const Epilogue& e = problem.epilogue;
  const bool is_elementwise = e.has_bias || e.activation != Activation::kNone;
  const bool is_f16_sum = problem.accumulate == DataType::kF16;
  switch (arithmetic) {
    case Arithmetic::kInt8:
      return problem.d.type == DataType::kInt32;
    case Arithmetic::kF64:
      if (is_elementwise) return false;
      break;
    case Arithmetic::kF16:
    case Arithmetic::kBf16: {
      const bool is_own = problem.d.type == problem.a.type;
      if (!is_own && (is_f16_sum || problem.d.type != DataType::kF32)) return false;
      if (is_f16_sum && !(IsExactInF16(e.alpha) && IsExactInF16(e.beta))) return false;
      break;
    }
    case Arithmetic::kFp8Promoted:
    case Arithmetic::kFp8Fast:
    case Arithmetic::kFp8Blocks:
      // Vectors of scales go with each other alone; a bias of f32 does not exist.
      if ((problem.a_scaling == Scaling::kVector) != (problem.b_scaling == Scaling::kVector)) {
        return false;
      }
      if (e.has_bias && problem.d.type == DataType::kF32) return false;
      break;
    default:
      break;
  }
  if (e.activation == Activation::kSilu) return false;
  // The library's bias runs along the rows of D', which are D's columns only when swapped.
  if (e.has_bias && problem.d.order == Order::kColumnMajor) return false;
  return e.beta == 0 || problem.c.order == problem.d.order;
}

// Returns a call with its operands and sizes, and without its output and scalings.
CublasLtCall Operands(Arithmetic arithmetic, const Problem& problem) {
  CublasLtCall call;
  call.arithmetic = arithmetic;
  call.accumulate = problem.accumulate;
  call.swaps_operands = problem.d.order == Order::kRowMajor;
  const MatrixLayout& a = call.swaps_operands ? problem.b : problem.a;
  const MatrixLayout& b = call.swaps_operands ? problem.a : problem.b;
  call.a_type = a.type;
  call.b_type = b.type;
  call.lda = a.leading_dimension;
  call.ldb = b.leading_dimension;
  call.m = call.swaps_operands ? problem.n : problem.m;
  call.n = call.swaps_operands ? problem.m : problem.n;
  call.k = problem.k;
  const bool a_is_k_major = call.swaps_operands ? problem.b_is_k_major() : problem.a_is_k_major();
  const bool b_is_k_major = call.swaps_operands ? problem.a_is_k_major() : problem.b_is_k_major();
  // Stored column-major, a K-major A' is k x m and a K-major B' is k x n.
  call.transpose_a = a_is_k_major;
  call.transpose_b = !b_is_k_major;
  return call;
}

void SetScalings(const Problem& problem, CublasLtCall* call) {
  call->a_scaling = call->swaps_operands ? problem.b_scaling : problem.a_scaling;
  call->b_scaling = call->swaps_operands ? problem.a_scaling : problem.b_scaling;
}

}  // namespace

bool operator==(const CublasLtCall& x, const CublasLtCall& y) { return Fields(x) == Fields(y); }

std::string MatmulRejection(Arithmetic arithmetic, const Problem& problem) {
  std::string rejection = TypeRejection(arithmetic, problem);
  if (rejection.empty()) rejection = OutputRejection(arithmetic, problem);
  if (rejection.empty()) rejection = LayoutRejection("A", problem.a);
  if (rejection.empty()) rejection = LayoutRejection("B", problem.b);
  if (rejection.empty()) rejection = LayoutRejection("D", problem.d);
  if (rejection.empty() && problem.epilogue.beta != 0) rejection = LayoutRejection("C", problem.c);
  if (rejection.empty() && IsByte(arithmetic)) rejection = ByteRejection(problem);
  if (!rejection.empty()) return rejection;
  if (arithmetic == Arithmetic::kInt8 && problem.k > kMaxPaddedInt8K) {
    return absl::StrCat("K is ", problem.k, ", and int32 holds every sum only up to ",
                        kMaxPaddedInt8K - 1, " and padding");
  }
  const std::int64_t largest = std::max({problem.m, problem.n, problem.k});
  if (largest > kMaxDimension) {
    return absl::StrCat("takes dimensions up to ", kMaxDimension, ", not ", largest);
  }
  return "";
}

std::optional<CublasLtCall> FusedCall(Arithmetic arithmetic, const Problem& problem) {
  if (!IsFusible(arithmetic, problem)) return std::nullopt;
  CublasLtCall call = Operands(arithmetic, problem);
  call.d_type = problem.d.type;
  call.ldd = problem.d.leading_dimension;
  call.has_c = problem.epilogue.beta != 0;
  call.ldc = call.has_c ? problem.c.leading_dimension : call.ldd;
  call.epilogue = ToFused(problem.epilogue);
  SetScalings(problem, &call);
  return call;
}

std::optional<CublasLtCall> ProductCall(Arithmetic arithmetic, const Problem& problem) {
  if (!EpilogueRejection(ProductType(problem), problem.d.type).empty()) return std::nullopt;
  CublasLtCall call = Operands(arithmetic, problem);
  call.is_product_only = true;
  // A sum over blocks cannot be scaled afterwards.
  if (arithmetic == Arithmetic::kFp8Blocks) SetScalings(problem, &call);
  call.d_type = ProductType(problem);
  const std::int64_t unit = kAlignmentBits / SizeBits(call.d_type);
  call.ldd = RoundUp(call.m, unit);
  call.ldc = call.ldd;
  return call;
}

std::uint64_t ProductBytes(const CublasLtCall& call) {
  constexpr std::uint64_t kUnit = 256;
  const std::uint64_t bytes = static_cast<std::uint64_t>(call.ldd) *
                              static_cast<std::uint64_t>(call.n) *
                              static_cast<std::uint64_t>(SizeBits(call.d_type)) / 8;
  return RoundUp(bytes, kUnit);
}

}  // namespace gemmd::cublaslt
