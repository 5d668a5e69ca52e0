// Host code of the products of 8-bit operands, compiled for the device and for the emulator.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/hopper/bytes/byte_gemm.h"
#include "kernels/hopper/half/wgmma_gemm_launch.h"

namespace gemmd::hopper::bytes {

// The problem in the units of the half family: elements of 16 bits, two of ours.
inline Problem InHalves(const Problem& problem) {
  Problem halves = problem;
  halves.k = (problem.k + 1) / 2;
  for (MatrixLayout* layout : {&halves.a, &halves.b}) {
    layout->type = DataType::kBf16;
    std::int64_t& inner = layout->order == Order::kRowMajor ? layout->columns : layout->rows;
    inner = (inner + 1) / 2;
    layout->leading_dimension /= 2;
  }
  return halves;
}

// Returns whether sums are scaled block by block of K.
inline bool HasBlocks(const Problem& problem) {
  return !problem.a_scaling.scales_whole_lines() || !problem.b_scaling.scales_whole_lines();
}

inline namespace GEMMD_BACKEND {

inline LineScales LineScalesOf(const Scaling& scaling, const void* scales) {
  if (!scaling.has_scales) return {nullptr, 0};
  return {static_cast<const float*>(scales), scaling.block_lines == kWhole ? 0 : 1};
}

inline BlockScales BlockScalesOf(const Scaling& scaling, std::int64_t lines, std::int64_t k,
                                 const void* scales) {
  BlockScales blocks;
  blocks.data = static_cast<const float*>(scales);
  const bool is_along_k = scaling.order == ScaleOrder::kAlongK;
  blocks.line_step = is_along_k ? scaling.k_blocks(k) : 1;
  blocks.k_step = is_along_k ? 1 : scaling.line_blocks(lines);
  blocks.line_shift = scaling.block_lines == 1 ? 0 : 7;
  return blocks;
}

// Lines of K bytes; beyond K TMA writes zeros.
inline absl::StatusOr<ptx::TensorMap> MapOf(const FrameOperand& operand, std::int64_t k,
                                            std::uint32_t box_lines) {
  ptx::TensorMapSpec spec;
  spec.base = operand.data;
  spec.element = ptx::TensorElement::kU8;
  spec.size[0] = static_cast<std::uint64_t>(k);
  spec.size[1] = static_cast<std::uint64_t>(operand.lines);
  spec.stride_bytes[1] = static_cast<std::uint64_t>(operand.leading_dimension);
  spec.box[0] = kSpanBytes;
  spec.box[1] = box_lines;
  spec.swizzle = ptx::Swizzle::k128B;
  return ptx::MakeTensorMap(spec);
}

inline bool Is16Bit(DataType type) { return type == DataType::kF16 || type == DataType::kBf16; }

template <class Layout, bool kHasEpilogue>
absl::Status SetOperands(const Problem& problem, const Frame& frame, const Arguments& arguments,
                         ByteParams* params) {
  half::WgmmaOperands& operands = params->operands[0];
  const std::uint32_t row_lines = params->box_rows < static_cast<std::uint32_t>(Layout::kTileM)
                                      ? params->box_rows
                                      : std::uint32_t{Layout::Rows::kBoxLines};
  const absl::StatusOr<ptx::TensorMap> rows = MapOf(frame.rows, problem.k, row_lines);
  if (!rows.ok()) return rows.status();
  const absl::StatusOr<ptx::TensorMap> columns =
      MapOf(frame.columns, problem.k, std::uint32_t{Layout::Columns::kBoxLines});
  if (!columns.ok()) return columns.status();
  operands.rows = *rows;
  operands.columns = *columns;
  operands.d_data = arguments.d;
  operands.c = problem.epilogue.beta == 0 ? nullptr : arguments.c;
  operands.bias = problem.epilogue.has_bias ? arguments.bias : nullptr;
  if (!kHasEpilogue && !Layout::kStoresByUnit && Is16Bit(problem.d.type)) {
    const absl::StatusOr<ptx::TensorMap> d = ptx::MakeTensorMap(half::OutputSpec<Layout>(
        frame,
        problem.d.type == DataType::kF16 ? ptx::TensorElement::kF16 : ptx::TensorElement::kBf16));
    if (!d.ok()) return d.status();
    operands.d = *d;
  }
  return absl::OkStatus();
}

inline void SetScales(const Problem& problem, const Frame& frame, const Arguments& arguments,
                      ByteParams* params) {
  params->is_swapped = frame.is_swapped;
  params->d_type = problem.d.type;
  const auto lines_of = [](std::int64_t whole, std::int64_t part) {
    return whole == 0 ? part : whole;
  };
  if (HasBlocks(problem)) {
    params->row_blocks =
        BlockScalesOf(problem.a_scaling, lines_of(problem.a_scale_lines, problem.m), problem.k,
                      arguments.a_scales);
    params->column_blocks =
        BlockScalesOf(problem.b_scaling, lines_of(problem.b_scale_lines, problem.n), problem.k,
                      arguments.b_scales);
    if (frame.is_swapped) std::swap(params->row_blocks, params->column_blocks);
    return;
  }
  params->row_scales = LineScalesOf(problem.a_scaling, arguments.a_scales);
  params->column_scales = LineScalesOf(problem.b_scaling, arguments.b_scales);
  if (frame.is_swapped) std::swap(params->row_scales, params->column_scales);
}

inline void AddScaleBuffers(const Problem& problem, const Arguments& arguments,
                            std::vector<ptx::DeviceBuffer>* buffers) {
  const auto add = [&](const Scaling& scaling, std::int64_t lines, const void* scales,
                       const char* name) {
    if (!scaling.has_scales) return;
    buffers->push_back({scales,
                        sizeof(float) * static_cast<std::uint64_t>(scaling.count(lines, problem.k)),
                        name});
  };
  const auto lines_of = [](std::int64_t whole, std::int64_t part) {
    return whole == 0 ? part : whole;
  };
  add(problem.a_scaling, lines_of(problem.a_scale_lines, problem.m), arguments.a_scales,
      "A's scales");
  add(problem.b_scaling, lines_of(problem.b_scale_lines, problem.n), arguments.b_scales,
      "B's scales");
}

template <int kTiling, class Format, bool kHasBlocks, bool kHasEpilogue>
absl::Status LaunchByteGemm(const Problem& problem, const Config& config,
                            const Arguments& arguments, const LaunchTarget& target) {
  using Layout = half::WgmmaLayout<kTiling, ptx::Major::kK, ptx::Major::kK>;
  const Problem halves = InHalves(problem);
  const Frame frame = MakeFrame(problem, arguments);
  ByteParams params = {};
  half::SetShape<Layout, Bf16Element>(halves, config, frame, &params);
  params.k_step = kSpanBytes;  // elements of the maps
  SetScales(problem, frame, arguments, &params);
  const absl::Status status = SetOperands<Layout, kHasEpilogue>(problem, frame, arguments, &params);
  if (!status.ok()) return status;
  if (config.by_place != 0 && Layout::kCluster == 2) {
    const absl::StatusOr<half::DevicePlaces> known = half::PlacesOfPairs();
    if (!known.ok()) return known.status();
    params.is_placed = known->clusters == half::GridClusters<Layout>(params);
    params.places = known->places;
  }
  half::SetSettled<Layout>(frame, absl::MakeConstSpan(&arguments, 1), &params);
  ptx::LaunchShape shape;
  shape.kernel = Layout::kValues.name;
  shape.blocks_x = half::GridClusters<Layout>(params) * Layout::kCluster;
  shape.threads = Layout::kThreads;
  shape.cluster_size = Layout::kCluster;
  shape.shared_bytes = kHasBlocks ? kSharedBytes<Layout> : Layout::kSharedBytes;
  static_assert(kSharedBytes<Layout> <= kMaxSharedBytes);
  shape.overlaps_preceding = !params.is_placed;
  std::vector<ptx::DeviceBuffer> buffers;
  half::AddBuffers(problem, arguments, &buffers);
  AddScaleBuffers(problem, arguments, &buffers);
  return ptx::Launch(ByteGemm<kTiling, Format, kHasBlocks, kHasEpilogue>, shape, params, buffers,
                     target);
}

// Returns whether D is more than sums with their scales, in a type that has no way of its own.
inline bool NeedsEpilogue(const Problem& problem) {
  const Epilogue& epilogue = problem.epilogue;
  return epilogue.alpha != 1 || epilogue.beta != 0 || epilogue.has_bias ||
         epilogue.activation != Activation::kNone;
}

template <int kTiling, class Format>
absl::Status LaunchFormat(const Problem& problem, const Config& config, const Arguments& arguments,
                          const LaunchTarget& target) {
  if constexpr (Format::kIsPromoted) {
    if (HasBlocks(problem)) {
      return NeedsEpilogue(problem)
                 ? LaunchByteGemm<kTiling, Format, true, true>(problem, config, arguments, target)
                 : LaunchByteGemm<kTiling, Format, true, false>(problem, config, arguments, target);
    }
  }
  return NeedsEpilogue(problem)
             ? LaunchByteGemm<kTiling, Format, false, true>(problem, config, arguments, target)
             : LaunchByteGemm<kTiling, Format, false, false>(problem, config, arguments, target);
}

// Launches one problem. REQUIRES: Rejection() of the tiling's entry is empty.
template <int kTiling>
absl::Status LaunchInt8(const Problem& problem, const Config& config, const Arguments& arguments,
                        const LaunchTarget& target) {
  constexpr ptx::ByteType kS8 = ptx::ByteType::kS8;
  return LaunchFormat<kTiling, Format<kS8, kS8>>(problem, config, arguments, target);
}

template <int kTiling>
absl::Status LaunchFp8(const Problem& problem, const Config& config, const Arguments& arguments,
                       const LaunchTarget& target) {
  constexpr ptx::ByteType kE4m3 = ptx::ByteType::kE4m3;
  constexpr ptx::ByteType kE5m2 = ptx::ByteType::kE5m2;
  const bool is_swapped = problem.d.order == Order::kColumnMajor;
  const bool rows_are_e5m2 = (is_swapped ? problem.b : problem.a).type == DataType::kFp8E5M2;
  const bool columns_are_e5m2 = (is_swapped ? problem.a : problem.b).type == DataType::kFp8E5M2;
  if (rows_are_e5m2 && columns_are_e5m2) {
    return LaunchFormat<kTiling, Format<kE5m2, kE5m2>>(problem, config, arguments, target);
  }
  if (rows_are_e5m2) {
    return LaunchFormat<kTiling, Format<kE5m2, kE4m3>>(problem, config, arguments, target);
  }
  if (columns_are_e5m2) {
    return LaunchFormat<kTiling, Format<kE4m3, kE5m2>>(problem, config, arguments, target);
  }
  return LaunchFormat<kTiling, Format<kE4m3, kE4m3>>(problem, config, arguments, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::bytes
