// Tensor maps of the Hopper GEMM's operands. Host code, compiled twice as the launch is.
#pragma once

#include "absl/status/statusor.h"
#include "kernels/hopper/common/batch_steps.h"
#include "kernels/hopper/common/frame.h"
#include "kernels/hopper/half/wgmma_gemm_params.h"
#include "kernels/hopper/half/wgmma_layout.h"
#include "kernels/ptx/tensor_map.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

// The third dimension of maps, which one problem does not have. For a batch it has one problem, or
// all of them where they lie at equal distances; for groups it has all B, which are the columns.
struct MapDepth {
  Products of = Products::kOne;
  std::uint64_t problems = 1;
  hopper::BatchSteps steps;
};

inline void AddDepth(const MapDepth& depth, std::int64_t step, ptx::TensorMapSpec* spec) {
  if (depth.of == Products::kOne) return;
  spec->rank = 3;
  spec->size[2] = depth.problems;
  // For one problem any stride will do.
  spec->stride_bytes[2] =
      depth.problems > 1 ? static_cast<std::uint64_t>(step) : spec->stride_bytes[1];
}

inline ptx::TensorMapSpec OperandSpec(const FrameOperand& operand, std::int64_t k,
                                      ptx::TensorElement element, std::uint32_t box_lines) {
  ptx::TensorMapSpec spec;
  spec.base = operand.data;
  spec.element = element;
  const auto lines = static_cast<std::uint64_t>(operand.lines);
  // K counts units of 16 bits: an element of 32 bits is two of them.
  const std::uint32_t unit = ptx::TensorElementBytes(element) / 2;
  const auto length = static_cast<std::uint64_t>(k) / unit;
  spec.size[0] = operand.is_k_major ? length : lines;
  spec.size[1] = operand.is_k_major ? lines : length;
  spec.stride_bytes[1] = static_cast<std::uint64_t>(operand.leading_dimension) * 2;
  spec.box[0] = kSpan / unit;
  spec.box[1] = box_lines;
  spec.swizzle = ptx::Swizzle::k128B;
  return spec;
}

template <class Layout>
ptx::TensorMapSpec OutputSpec(const Frame& frame, ptx::TensorElement element) {
  ptx::TensorMapSpec spec;
  spec.base = frame.d;
  spec.element = element;
  spec.size[0] = static_cast<std::uint64_t>(frame.columns.lines);
  spec.size[1] = static_cast<std::uint64_t>(frame.rows.lines);
  spec.stride_bytes[1] = static_cast<std::uint64_t>(frame.d_row_stride) * 2;
  spec.box[0] = Layout::kBoxColumns;
  spec.box[1] = 16;
  spec.swizzle = Layout::kIsBoxSwizzled ? ptx::Swizzle::k128B : ptx::Swizzle::kNone;
  return spec;
}

// The map of the rows' operand, in boxes of `lines`.
template <class Element>
absl::StatusOr<ptx::TensorMap> RowsMap(const Problem& problem, const Frame& frame,
                                       std::uint32_t lines) {
  return ptx::MakeTensorMap(OperandSpec(frame.rows, problem.k, Element::kMapElement, lines));
}

// `box_rows` as WgmmaParams has it.
template <class Layout, class Element, bool kHasEpilogue>
absl::StatusOr<WgmmaOperands> MakeOperands(const Problem& problem, const Frame& frame,
                                           const Arguments& arguments, std::uint32_t box_rows,
                                           const MapDepth& depth) {
  const bool has_short_boxes = box_rows < static_cast<std::uint32_t>(Layout::kTileM);
  ptx::TensorMapSpec rows =
      OperandSpec(frame.rows, problem.k, Element::kMapElement,
                  has_short_boxes ? box_rows : std::uint32_t{Layout::Rows::kBoxLines});
  ptx::TensorMapSpec columns = OperandSpec(frame.columns, problem.k, Element::kMapElement,
                                           std::uint32_t{Layout::Columns::kBoxLines});
  AddDepth(depth, frame.is_swapped ? depth.steps.a : depth.steps.b, &columns);
  if (depth.of == Products::kBatch) {
    AddDepth(depth, frame.is_swapped ? depth.steps.b : depth.steps.a, &rows);
  }
  const absl::StatusOr<ptx::TensorMap> rows_map = ptx::MakeTensorMap(rows);
  if (!rows_map.ok()) return rows_map.status();
  const absl::StatusOr<ptx::TensorMap> columns_map = ptx::MakeTensorMap(columns);
  if (!columns_map.ok()) return columns_map.status();
  WgmmaOperands operands = {};
  operands.rows = *rows_map;
  operands.columns = *columns_map;
  operands.d_data = arguments.d;
  operands.c = problem.epilogue.beta == 0 ? nullptr : arguments.c;
  operands.bias = problem.epilogue.has_bias ? arguments.bias : nullptr;
  if constexpr (!kHasEpilogue && !Layout::kStoresByUnit) {
    ptx::TensorMapSpec output = OutputSpec<Layout>(frame, Element::kMapElement);
    if (depth.of == Products::kBatch) AddDepth(depth, depth.steps.d, &output);
    const absl::StatusOr<ptx::TensorMap> output_map = ptx::MakeTensorMap(output);
    if (!output_map.ok()) return output_map.status();
    operands.d = *output_map;
  }
  return operands;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
