#include "kernels/cublaslt/block_scales.h"

#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "kernels/landing/transpose.h"

namespace gemmd::cublaslt {
namespace {

constexpr std::int64_t kBlock = 128;
constexpr std::int64_t kScaleUnit = 4;  // 16 bytes of f32: the library's, and the transposition's
constexpr std::uint64_t kAlignmentBytes = 256;

bool HasBlocksOf128(const Scaling& scaling) {
  return scaling.has_scales && scaling.type == DataType::kF32 && scaling.block_k == kBlock &&
         (scaling.block_lines == 1 || scaling.block_lines == kBlock) &&
         scaling.order != ScaleOrder::kTiles128x4 && !scaling.has_zero_points &&
         !scaling.has_tensor_scale;
}

bool IsSquare(const Scaling& scaling) { return scaling.block_lines == kBlock; }

bool IsTransposed(const Scaling& scaling) {
  return scaling.order != (IsSquare(scaling) ? ScaleOrder::kAlongK : ScaleOrder::kAlongLines);
}

std::string LinesRejection(const char* name, const char* dimension, const Scaling& scaling,
                           std::int64_t lines, std::int64_t scale_lines) {
  if (lines % kScaleUnit != 0) {
    return absl::StrCat(dimension, " is ", lines, "; scales of blocks need a multiple of ",
                        kScaleUnit);
  }
  if (scale_lines != 0 && scale_lines != lines) {
    return absl::StrCat("takes no part of the scales of ", name);
  }
  const std::int64_t blocks = scaling.line_blocks(lines);
  if (IsSquare(scaling) && IsTransposed(scaling) && blocks % kScaleUnit != 0) {
    return absl::StrCat("takes scales of ", name, " along ", dimension, " for a multiple of ",
                        kScaleUnit, " blocks, not for ", blocks);
  }
  return "";
}

std::uint64_t TransposedBytes(const Scaling& scaling, std::int64_t lines, std::int64_t k) {
  if (!IsTransposed(scaling)) return 0;
  const std::uint64_t bytes = sizeof(float) * static_cast<std::uint64_t>(scaling.count(lines, k));
  return RoundUp(bytes, kAlignmentBytes);
}

absl::Status Arrange(const Scaling& scaling, std::int64_t lines, std::int64_t k, const void* from,
                     void* workspace, const LaunchTarget& target, const float** scales) {
  if (!IsTransposed(scaling)) {
    *scales = static_cast<const float*>(from);
    return absl::OkStatus();
  }
  *scales = static_cast<const float*>(workspace);
  const bool is_along_k = scaling.order == ScaleOrder::kAlongK;
  const std::int64_t line_blocks = scaling.line_blocks(lines);
  const std::int64_t k_blocks = scaling.k_blocks(k);
  Transposition transposition;
  transposition.element_bytes = sizeof(float);
  transposition.rows = is_along_k ? line_blocks : k_blocks;
  transposition.columns = is_along_k ? k_blocks : line_blocks;
  transposition.from = from;
  transposition.from_leading_dimension = transposition.columns;
  transposition.to = workspace;
  transposition.to_leading_dimension = transposition.rows;
  transposition.padded_rows = transposition.columns;
  transposition.padded_columns = transposition.rows;
  return LaunchTranspose(transposition, target);
}

}  // namespace

std::string BlockScalesRejection(const Problem& problem) {
  if (!HasBlocksOf128(problem.a_scaling) || !HasBlocksOf128(problem.b_scaling)) {
    return "takes f32 scales of 1x128 and 128x128 blocks in both operands";
  }
  if (IsSquare(problem.a_scaling) && IsSquare(problem.b_scaling)) {
    return "takes 128x128 blocks in one operand, not in both";
  }
  const std::int64_t k_blocks = problem.a_scaling.k_blocks(problem.k);
  if (k_blocks % kScaleUnit != 0) {
    return absl::StrCat("K has ", k_blocks, " blocks of ", kBlock, "; takes a multiple of ",
                        kScaleUnit);
  }
  std::string rejection =
      LinesRejection("A", "M", problem.a_scaling, problem.m, problem.a_scale_lines);
  if (!rejection.empty()) return rejection;
  return LinesRejection("B", "N", problem.b_scaling, problem.n, problem.b_scale_lines);
}

std::uint64_t BlockScalesBytes(const Problem& problem) {
  return TransposedBytes(problem.a_scaling, problem.m, problem.k) +
         TransposedBytes(problem.b_scaling, problem.n, problem.k);
}

absl::Status ArrangeBlockScales(const Problem& problem, const Arguments& arguments, void* workspace,
                                const LaunchTarget& target, BlockScales* scales) {
  const absl::Status status = Arrange(problem.a_scaling, problem.m, problem.k, arguments.a_scales,
                                      workspace, target, &scales->a);
  if (!status.ok()) return status;
  void* const behind =
      static_cast<char*>(workspace) + TransposedBytes(problem.a_scaling, problem.m, problem.k);
  return Arrange(problem.b_scaling, problem.n, problem.k, arguments.b_scales, behind, target,
                 &scales->b);
}

}  // namespace gemmd::cublaslt
