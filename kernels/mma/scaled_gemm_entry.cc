#include "kernels/mma/scaled_gemm_entry.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/math.h"

namespace gemmd::mma {
namespace {

// Indices of rows and columns, and numbers of tiles, are 32 bits wide, with room for a tile.
constexpr std::int64_t kLimit = std::numeric_limits<std::int32_t>::max() - 512;

std::string TypeNames(const ScaledGemmForm& form) {
  std::string names(Name(form.types[0]));
  if (form.types[1] != form.types[0]) absl::StrAppend(&names, " or ", Name(form.types[1]));
  return names;
}

std::string OperandRejection(const ScaledGemmForm& form, const char* name,
                             const MatrixLayout& layout, const Scaling& scaling, bool is_k_major) {
  if (layout.type != form.types[0] && layout.type != form.types[1]) {
    return absl::StrCat("takes ", TypeNames(form), " as ", name, ", not ", Name(layout.type));
  }
  if (scaling != form.scaling) {
    return absl::StrCat("takes scales of ", name, " as ", Name(form.scaling), ", not ",
                        Name(scaling));
  }
  if (!is_k_major) return absl::StrCat("takes a K-major ", name);
  if (layout.leading_dimension % form.stride_elements != 0) {
    return absl::StrCat("takes a leading dimension of ", name, " that is a multiple of ",
                        form.stride_elements, ", not ", layout.leading_dimension);
  }
  // Strides of a tensor map have 40 bits.
  const std::int64_t longest =
      (std::int64_t{1} << 40) / 16 * form.stride_elements - form.stride_elements;
  if (layout.leading_dimension <= longest) return "";
  return absl::StrCat("takes leading dimensions up to ", longest, ", not ",
                      layout.leading_dimension);
}

std::string OutputRejection(const Problem& problem) {
  if (problem.d.type != DataType::kF32) {
    return absl::StrCat("writes f32, not ", Name(problem.d.type));
  }
  if (problem.accumulate != DataType::kF32) {
    return absl::StrCat("does not accumulate in ", Name(problem.accumulate));
  }
  if (problem.d.order != Order::kRowMajor) return "takes a row-major D";
  constexpr std::int64_t kLongest = (std::int64_t{1} << 40) / 4 - 4;
  if (problem.d.leading_dimension > kLongest) {
    return absl::StrCat("takes leading dimensions of D up to ", kLongest, ", not ",
                        problem.d.leading_dimension);
  }
  const Epilogue& epilogue = problem.epilogue;
  if (epilogue.alpha != 1 || epilogue.beta != 0 || epilogue.has_bias ||
      epilogue.activation != Activation::kNone) {
    return "has no epilogue: alpha 1, beta 0, no bias, no activation";
  }
  return "";
}

}  // namespace

ScaledGemmForm Mxfp8Form(const char* numerics) {
  return {{DataType::kFp8E4M3, DataType::kFp8E5M2},
          {true, DataType::kE8M0, 1, 32, ScaleOrder::kTiles128x4},
          16,
          /*has_even_k=*/false,
          numerics};
}

ScaledGemmForm Mxfp4Form(const char* numerics) {
  return {{DataType::kFp4E2M1, DataType::kFp4E2M1},
          {true, DataType::kE8M0, 1, 32, ScaleOrder::kTiles128x4},
          32,
          /*has_even_k=*/true,
          numerics};
}

ScaledGemmForm Nvfp4Form(const char* numerics) {
  ScaledGemmForm form = Mxfp4Form(numerics);
  form.scaling.type = DataType::kFp8E4M3;
  form.scaling.block_k = 16;
  form.scaling.has_tensor_scale = true;
  return form;
}

ScaledGemmEntry::ScaledGemmEntry(const HalfGemmTraits& traits, const char* architecture,
                                 const ScaledGemmForm& form, HalfGemmLaunch cuda,
                                 HalfGemmLaunch emulated)
    : HalfGemmEntry(traits, architecture, /*accumulates_f16=*/false, cuda, emulated),
      values_(traits),
      form_(form) {}

std::string ScaledGemmEntry::Rejection(const Problem& problem) const {
  for (const std::string& rejection :
       {OperandRejection(form_, "A", problem.a, problem.a_scaling, problem.a_is_k_major()),
        OperandRejection(form_, "B", problem.b, problem.b_scaling, problem.b_is_k_major()),
        OutputRejection(problem)}) {
    if (!rejection.empty()) return rejection;
  }
  if (form_.has_even_k && problem.k % 2 != 0) {
    return absl::StrCat("takes an even K, not ", problem.k);
  }
  if (std::max({problem.m, problem.n, problem.k}) > kLimit) {
    return absl::StrCat("takes dimensions up to ", kLimit);
  }
  // A kernel may choose tiles half as wide.
  const bool is_small =
      CeilOfRatio(problem.m, values_.tile_m) * CeilOfRatio(problem.n, 128) <= kLimit;
  return is_small ? "" : absl::StrCat("takes up to ", kLimit, " tiles");
}

std::string ScaledGemmEntry::NumericsId(const Problem& problem) const {
  return absl::StrCat(form_.numerics, ":", Name(problem.a.type), ",", Name(problem.b.type));
}

}  // namespace gemmd::mma
