#include "kernels/cublaslt/cublaslt_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/numbers/float_bits.h"

namespace gemmd::cublaslt {
namespace {

constexpr int kAlgorithms = 16;

absl::Status ToStatus(cublasStatus_t status, const char* function) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(function, ": ", cublasLtGetStatusName(status)));
}

cudaDataType ToCuda(DataType type) {
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
    case DataType::kFp8E5M2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t ComputeType(const CublasLtCall& call) {
  switch (call.accumulate) {
    case DataType::kF64:
      return CUBLAS_COMPUTE_64F;
    case DataType::kInt32:
      return CUBLAS_COMPUTE_32I;
    case DataType::kF16:
      return CUBLAS_COMPUTE_16F;
    default:
      return call.arithmetic == Arithmetic::kTf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                  : CUBLAS_COMPUTE_32F;
  }
}

cublasLtEpilogue_t ToCuda(FusedEpilogue epilogue) {
  switch (epilogue) {
    case FusedEpilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case FusedEpilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case FusedEpilogue::kRelu:
      return CUBLASLT_EPILOGUE_RELU;
    case FusedEpilogue::kReluBias:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case FusedEpilogue::kGelu:
      return CUBLASLT_EPILOGUE_GELU;
    case FusedEpilogue::kGeluBias:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// Returns the library's mode for the scales of an operand. REQUIRES: it has scales.
cublasLtMatmulMatrixScale_t ScaleMode(const Scaling& scaling) {
  if (scaling == Scaling::kTensor) return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  if (scaling == Scaling::kVector) return CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  return scaling.block_lines == 1 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                                  : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
}

bool HasBias(FusedEpilogue epilogue) {
  return epilogue == FusedEpilogue::kBias || epilogue == FusedEpilogue::kReluBias ||
         epilogue == FusedEpilogue::kGeluBias;
}

// A factor in the type that accumulates, which is the type of its scale here.
struct Factor {
  Factor(DataType type, double value) {
    switch (type) {
      case DataType::kF64:
        f64 = value;
        return;
      case DataType::kInt32:
        int32 = static_cast<std::int32_t>(value);
        return;
      case DataType::kF16:
        f16 = ToF16(static_cast<float>(value));
        return;
      default:
        f32 = static_cast<float>(value);
    }
  }
  union {
    double f64;
    float f32;
    std::int32_t int32;
    std::uint16_t f16;
  };
};

// Sets attributes until one fails.
class Attributes {
 public:
  explicit Attributes(cublasLtMatmulDesc_t description) : description_(description) {}

  template <typename T>
  Attributes& Set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    if (status_ == CUBLAS_STATUS_SUCCESS) {
      status_ = cublasLtMatmulDescSetAttribute(description_, attribute,
                                               static_cast<const void*>(&value), sizeof value);
    }
    return *this;
  }
  absl::Status status() const { return ToStatus(status_, "cublasLtMatmulDescSetAttribute"); }

 private:
  const cublasLtMatmulDesc_t description_;
  cublasStatus_t status_ = CUBLAS_STATUS_SUCCESS;
};

absl::Status SetAddresses(const CublasLtCall& call, const void* bias, const float* a_scales,
                          const float* b_scales, cublasLtMatmulDesc_t description) {
  Attributes attributes(description);
  if (HasBias(call.epilogue)) attributes.Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (call.a_scaling != Scaling::kNone) {
    attributes.Set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, a_scales);
  }
  if (call.b_scaling != Scaling::kNone) {
    attributes.Set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, b_scales);
  }
  return attributes.status();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CublasLtPlan>> CublasLtPlan::Make(
    cublasLtHandle_t handle, const CublasLtCall& call, std::uint64_t alignment_bytes,
    std::uint64_t workspace_limit_bytes) {
  std::shared_ptr<CublasLtPlan> plan(new CublasLtPlan(handle, call));
  if (absl::Status s = plan->Describe(); !s.ok()) return s;
  if (absl::Status s = plan->Ask(alignment_bytes, workspace_limit_bytes); !s.ok()) return s;
  return plan;
}

absl::Status CublasLtPlan::Describe() {
  cublasStatus_t status =
      cublasLtMatmulDescInit(&description_, ComputeType(call_), ToCuda(call_.accumulate));
  if (status != CUBLAS_STATUS_SUCCESS) return ToStatus(status, "cublasLtMatmulDescInit");
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  Attributes attributes(&description_);
  attributes.Set(CUBLASLT_MATMUL_DESC_TRANSA, operation(call_.transpose_a))
      .Set(CUBLASLT_MATMUL_DESC_TRANSB, operation(call_.transpose_b))
      .Set(CUBLASLT_MATMUL_DESC_EPILOGUE, ToCuda(call_.epilogue));
  if (call_.arithmetic == Arithmetic::kFp8Fast) {
    attributes.Set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  }
  if (HasBias(call_.epilogue)) {
    attributes.Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                   static_cast<std::int32_t>(ToCuda(call_.d_type)));
  }
  if (call_.a_scaling.has_scales) {
    attributes.Set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, ScaleMode(call_.a_scaling));
  }
  if (call_.b_scaling.has_scales) {
    attributes.Set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, ScaleMode(call_.b_scaling));
  }
  if (absl::Status s = attributes.status(); !s.ok()) return s;
  const auto init = [&status](cublasLtMatrixLayout_t layout, DataType type, std::int64_t rows,
                              std::int64_t columns, std::int64_t leading_dimension) {
    if (status != CUBLAS_STATUS_SUCCESS) return;
    status = cublasLtMatrixLayoutInit(layout, ToCuda(type), static_cast<std::uint64_t>(rows),
                                      static_cast<std::uint64_t>(columns), leading_dimension);
  };
  const CublasLtCall& c = call_;
  init(&a_, c.a_type, c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k, c.lda);
  init(&b_, c.b_type, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n, c.ldb);
  init(&c_, c.d_type, c.m, c.n, c.ldc);
  init(&d_, c.d_type, c.m, c.n, c.ldd);
  return ToStatus(status, "cublasLtMatrixLayoutInit");
}

absl::Status CublasLtPlan::Ask(std::uint64_t alignment_bytes, std::uint64_t workspace_limit_bytes) {
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasStatus_t status = cublasLtMatmulPreferenceInit(&preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    if (status != CUBLAS_STATUS_SUCCESS) return;
    status = cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value);
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_limit_bytes);
  const auto alignment = static_cast<std::uint32_t>(alignment_bytes);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  if (call_.d_type != call_.accumulate) {
    // Parts of a split K are summed in the type that accumulates, never in D's, where
    // rounding each part would cost many times the error of rounding the sum.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  }
  if (status != CUBLAS_STATUS_SUCCESS) {
    return ToStatus(status, "cublasLtMatmulPreferenceSetAttribute");
  }
  // The heuristics want to see that there are scales and a bias; they do not read them.
  cublasLtMatmulDescOpaque_t description = description_;
  alignas(256) static constexpr float kSomewhere = 1;
  if (absl::Status s = SetAddresses(call_, &kSomewhere, &kSomewhere, &kSomewhere, &description);
      !s.ok()) {
    return s;
  }
  algorithms_.resize(kAlgorithms);
  int found = 0;
  status = cublasLtMatmulAlgoGetHeuristic(handle_, &description, &a_, &b_, &c_, &d_, &preference,
                                          kAlgorithms, algorithms_.data(), &found);
  const bool is_unsupported =
      status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  if (status != CUBLAS_STATUS_SUCCESS && !is_unsupported) {
    return ToStatus(status, "cublasLtMatmulAlgoGetHeuristic");
  }
  algorithms_.resize(is_unsupported ? 0 : static_cast<std::size_t>(found));
  const auto is_unusable = [](const cublasLtMatmulHeuristicResult_t& result) {
    return result.state != CUBLAS_STATUS_SUCCESS;
  };
  algorithms_.erase(std::remove_if(algorithms_.begin(), algorithms_.end(), is_unusable),
                    algorithms_.end());
  return absl::OkStatus();
}

std::uint64_t CublasLtPlan::workspace_bytes(int index) const {
  return algorithms_[static_cast<std::size_t>(index)].workspaceSize;
}

absl::Status CublasLtPlan::Launch(int index, const MatmulArguments& arguments,
                                  const LaunchTarget& target) const {
  const cublasLtMatmulHeuristicResult_t& algorithm = algorithms_[static_cast<std::size_t>(index)];
  cublasLtMatmulDescOpaque_t description = description_;
  if (absl::Status s =
          SetAddresses(call_, arguments.bias, arguments.a_scales, arguments.b_scales, &description);
      !s.ok()) {
    return s;
  }
  const Factor alpha(call_.accumulate, arguments.alpha);
  const Factor beta(call_.accumulate, arguments.beta);
  // Without a C the library still wants an address and a layout there.
  const void* c = call_.has_c ? arguments.c : arguments.d;
  // It takes layouts by pointers that are not const, and only reads them.
  const auto layout = [](const cublasLtMatrixLayoutOpaque_t& l) {
    return const_cast<cublasLtMatrixLayout_t>(&l);
  };
  return ToStatus(
      cublasLtMatmul(handle_, &description, &alpha, arguments.a, layout(a_), arguments.b,
                     layout(b_), &beta, c, layout(c_), arguments.d, layout(d_), &algorithm.algo,
                     arguments.workspace, algorithm.workspaceSize, target.stream),
      "cublasLtMatmul");
}

}  // namespace gemmd::cublaslt
