// cuBLASLt without anything of ours around it: D = A * B^T, all row-major.
#pragma once

#include <cublasLt.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/kernel.h"

namespace gemmd::testing {

class BareCublasLt {
 public:
  BareCublasLt(const Problem& problem, bool fast_accumulation) {
    Check(cublasLtCreate(&handle_), "cublasLtCreate");
    const bool is_f64 = problem.accumulate == DataType::kF64;
    const bool is_int = problem.accumulate == DataType::kInt32;
    const cudaDataType scale = is_f64 ? CUDA_R_64F : is_int ? CUDA_R_32I : CUDA_R_32F;
    const cublasComputeType_t compute = is_f64   ? CUBLAS_COMPUTE_64F
                                        : is_int ? CUBLAS_COMPUTE_32I
                                        : problem.a.type == DataType::kTf32
                                            ? CUBLAS_COMPUTE_32F_FAST_TF32
                                            : CUBLAS_COMPUTE_32F;
    one_ = is_f64   ? static_cast<const void*>(&kOneF64)
           : is_int ? &kOneInt
                    : static_cast<const void*>(&kOneF32);
    zero_ = &kZero;
    Check(cublasLtMatmulDescInit(&description_, compute, scale), "cublasLtMatmulDescInit");
    const cublasOperation_t transpose = CUBLAS_OP_T;
    Check(cublasLtMatmulDescSetAttribute(&description_, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                         sizeof transpose),
          "transposition");
    if (fast_accumulation) {
      const std::int8_t yes = 1;
      Check(cublasLtMatmulDescSetAttribute(&description_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &yes,
                                           sizeof yes),
            "fast accumulation");
    }
    const auto k = static_cast<std::uint64_t>(problem.k);
    const auto m = static_cast<std::uint64_t>(problem.m);
    const auto n = static_cast<std::uint64_t>(problem.n);
    cublasLtMatrixLayoutInit(&b_, Type(problem.b.type), k, n, problem.b.leading_dimension);
    cublasLtMatrixLayoutInit(&a_, Type(problem.a.type), k, m, problem.a.leading_dimension);
    cublasLtMatrixLayoutInit(&d_, Type(problem.d.type), n, m, problem.d.leading_dimension);
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulPreferenceInit(&preference);
    const std::uint64_t bytes = std::uint64_t{32} << 20;
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &bytes, sizeof bytes);
    if (problem.d.type != problem.accumulate) {
      const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
      cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                           &schemes, sizeof schemes);
    }
    Check(cublasLtMatmulAlgoGetHeuristic(handle_, &description_, &b_, &a_, &d_, &d_, &preference,
                                         kAsked, found_, &count_),
          "cublasLtMatmulAlgoGetHeuristic");
  }

  int count() const { return count_; }

  void Launch(int i, const Arguments& arguments) {
    Check(cublasLtMatmul(handle_, &description_, one_, arguments.b, &b_, arguments.a, &a_, zero_,
                         arguments.d, &d_, arguments.d, &d_, &found_[i].algo, arguments.workspace,
                         found_[i].workspaceSize, nullptr),
          "cublasLtMatmul");
  }

 private:
  static void Check(cublasStatus_t status, const char* what) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    std::fprintf(stderr, "%s: status %d\n", what, static_cast<int>(status));
    std::exit(1);
  }

  static cudaDataType Type(DataType type) {
    switch (type) {
      case DataType::kF64:
        return CUDA_R_64F;
      case DataType::kF16:
        return CUDA_R_16F;
      case DataType::kBf16:
        return CUDA_R_16BF;
      case DataType::kInt8:
        return CUDA_R_8I;
      case DataType::kInt32:
        return CUDA_R_32I;
      case DataType::kFp8E4M3:
        return CUDA_R_8F_E4M3;
      default:
        return CUDA_R_32F;
    }
  }

  static constexpr int kAsked = 16;
  static constexpr float kOneF32 = 1;
  static constexpr double kOneF64 = 1;
  static constexpr std::int32_t kOneInt = 1;
  static constexpr double kZero = 0;  // of every type
  const void* one_;
  const void* zero_;
  cublasLtHandle_t handle_;
  cublasLtMatmulDescOpaque_t description_;
  cublasLtMatrixLayoutOpaque_t a_;
  cublasLtMatrixLayoutOpaque_t b_;
  cublasLtMatrixLayoutOpaque_t d_;
  cublasLtMatmulHeuristicResult_t found_[kAsked];
  int count_ = 0;
};

}  // namespace gemmd::testing
