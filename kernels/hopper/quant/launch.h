// Host code of the products, compiled for the device and for the emulator.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/numbers/quant/code_table.h"
#include "kernels/hopper/quant/few.h"
#include "kernels/hopper/quant/packed_places.h"
#include "kernels/hopper/quant/result.h"
#include "kernels/hopper/quant/row_sums.h"
#include "kernels/hopper/quant/table_decoder.h"
#include "kernels/hopper/quant/table_terms.h"
#include "kernels/hopper/quant/wide.h"
#include "kernels/kernel.h"
#include "kernels/ptx/launch.h"
#include "kernels/ptx/tensor_map.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

// A as slabs of 64 of K by rows: a box has `rows` rows of `slabs` slabs, one slab after another.
inline ptx::TensorMapSpec RowSpec(const Problem& problem, const void* a, ptx::TensorElement element,
                                  int rows, int slabs) {
  ptx::TensorMapSpec spec;
  spec.base = a;
  spec.element = element;
  spec.rank = 3;
  spec.size[0] = kSlabK;
  spec.size[1] = static_cast<std::uint64_t>(problem.m);
  spec.size[2] = static_cast<std::uint64_t>(problem.k) / kSlabK;
  spec.stride_bytes[1] = static_cast<std::uint64_t>(problem.a.leading_dimension) * 2;
  spec.stride_bytes[2] = kSlabK * 2;
  spec.box[0] = kSlabK;
  spec.box[1] = static_cast<std::uint32_t>(rows);
  spec.box[2] = static_cast<std::uint32_t>(slabs);
  spec.swizzle = ptx::Swizzle::k128B;
  return spec;
}

// Rows of A in boxes of one slab, in two dimensions.
inline ptx::TensorMapSpec SlabSpec(const Problem& problem, const void* a,
                                   ptx::TensorElement element, int rows) {
  ptx::TensorMapSpec spec = RowSpec(problem, a, element, rows, 1);
  spec.rank = 2;
  spec.size[0] = static_cast<std::uint64_t>(problem.k);
  return spec;
}

inline absl::StatusOr<QuantParams> MakeParams(const Problem& problem, const Arguments& arguments,
                                              const ptx::TensorMapSpec& rows_of_a) {
  QuantParams params = {};
  const absl::StatusOr<ptx::TensorMap> rows = ptx::MakeTensorMap(rows_of_a);
  if (!rows.ok()) return rows.status();
  params.rows = *rows;
  params.codes = static_cast<const std::uint8_t*>(arguments.b);
  params.scales = static_cast<const std::uint8_t*>(arguments.b_scales);
  params.shifts = static_cast<const std::uint8_t*>(
      problem.b_scaling.has_offsets ? arguments.b_offsets : arguments.b_zero_points);
  params.tensor_scale = problem.b_scaling.has_tensor_scale ? arguments.b_tensor_scale : nullptr;
  params.weights_are_settled = arguments.b_is_settled;
  params.scales_are_bf16 = problem.b_scaling.type == DataType::kBf16;
  params.scales_are_of_lines = ScalesAreOfLines(problem);
  if (const CodeTable* const table = CodeTableOf(problem.b.type); table != nullptr) {
    for (std::size_t i = 0; i < table->size(); ++i) {
      params.table[i] = TermsOf((*table)[i], problem.a.type);
    }
  }
  params.k_groups = static_cast<std::int32_t>(GroupsOf(problem.k));
  SetResult(problem, arguments, &params);
  return params;
}

inline std::uint64_t PackedPlaneBytes(const Problem& problem, WeightPlane plane) {
  return static_cast<std::uint64_t>(UnitsOf(problem, plane, problem.n)) *
         static_cast<std::uint64_t>(PieceBytes(CodeFormatOf(problem), plane));
}

inline std::vector<ptx::DeviceBuffer> Buffers(const Problem& problem, const Arguments& arguments) {
  const bool is_settled = arguments.b_is_settled;
  const auto packed = [&](const void* plane, WeightPlane which, const char* name) {
    return ptx::DeviceBuffer{plane, PackedPlaneBytes(problem, which), name, true, is_settled};
  };
  std::vector<ptx::DeviceBuffer> buffers = ResultBuffers(problem, arguments);
  buffers.push_back({arguments.a, problem.a.size_bytes(), "A"});
  buffers.push_back(packed(arguments.b, WeightPlane::kCodes, "B"));
  buffers.push_back(packed(arguments.b_scales, WeightPlane::kScales, "B's scales"));
  if (problem.b_scaling.has_zero_points) {
    buffers.push_back(packed(arguments.b_zero_points, WeightPlane::kZeroPoints, "B's zero points"));
  }
  if (problem.b_scaling.has_offsets) {
    buffers.push_back(packed(arguments.b_offsets, WeightPlane::kOffsets, "B's offsets"));
  }
  if (problem.b_scaling.has_tensor_scale) {
    buffers.push_back({arguments.b_tensor_scale, sizeof(float), "B's tensor scale"});
  }
  return buffers;
}

template <int kTiling, class Decoder>
absl::Status LaunchFewOf(const Problem& problem, const Arguments& arguments,
                         const LaunchTarget& target) {
  using Layout = FewLayout<kTiling, Decoder>;
  absl::StatusOr<QuantParams> params = MakeParams(
      problem, arguments,
      RowSpec(problem, arguments.a, Decoder::Rows::kElement, Layout::kBoxRows, Layout::kTurnSlabs));
  if (!params.ok()) return params.status();
  ptx::LaunchShape shape;
  shape.kernel = "hopper/quant few";
  shape.blocks_x =
      static_cast<std::uint32_t>((problem.n + Layout::kBlockLines - 1) / Layout::kBlockLines);
  // The next grid's loads keep this one waiting, so that it starts when all is asked for; where the
  // last blocks leave multiprocessors empty, it may come at once.
  const bool is_one_wave = shape.blocks_x <= ptx::Multiprocessors() * Layout::kBlocks;
  params->trigger =
      is_one_wave ? (params->k_groups + Layout::kTurnGroups - 1) / Layout::kTurnGroups - 1 : 0;
  shape.threads = Layout::kThreads;
  shape.shared_bytes = Layout::kSharedBytes;
  shape.overlaps_preceding = true;
  return ptx::Launch(FewProduct<kTiling, Decoder>, shape, *params, Buffers(problem, arguments),
                     target);
}

// Queues the sums of A's elements that the product of tiles of `rows` rows reads.
template <class Decoder>
absl::Status LaunchRowSums(const Problem& problem, const Arguments& arguments, int rows,
                           const LaunchTarget& target) {
  RowSumParams params = {};
  params.a = static_cast<const std::uint16_t*>(arguments.a);
  params.row_stride = problem.a.leading_dimension;
  params.m = static_cast<std::int32_t>(problem.m);
  params.k = static_cast<std::int32_t>(problem.k);
  params.eights = static_cast<std::int32_t>((problem.m + rows - 1) / rows * (rows / 8));
  params.groups = static_cast<std::int32_t>(GroupsOf(problem.k));
  params.sums = static_cast<float*>(arguments.workspace);
  constexpr int kWarps = kRowSumThreads / 32;
  ptx::LaunchShape shape;
  shape.kernel = "hopper/quant row sums";
  shape.blocks_x = static_cast<std::uint32_t>(
      (std::int64_t{params.eights} * params.groups + kWarps - 1) / kWarps);
  shape.threads = kRowSumThreads;
  shape.overlaps_preceding = true;
  return ptx::Launch(SumRows<typename Decoder::Rows, Decoder::kParts>, shape, params,
                     {{arguments.a, problem.a.size_bytes(), "A"},
                      {arguments.workspace, RowSumBytes(Decoder::kFormat, problem.m, problem.k),
                       "sums of rows", false}},
                     target);
}

template <int kTiling, class Decoder>
absl::StatusOr<QuantParams> MakeWideParams(const Problem& problem, const Arguments& arguments) {
  using Layout = WideLayout<kTiling, Decoder>;
  constexpr int kClusterChunks = Layout::kTileChunks * Layout::kCluster;
  if (ChunksOf(problem.n) % kClusterChunks != 0) {
    return absl::InvalidArgumentError("the tiling takes whole blocks of lines");
  }
  absl::StatusOr<QuantParams> params =
      MakeParams(problem, arguments,
                 SlabSpec(problem, arguments.a, Decoder::Rows::kElement, Layout::kLoadRows));
  if (!params.ok()) return params;
  params->tiles_m = static_cast<std::uint32_t>((problem.m + Layout::kRows - 1) / Layout::kRows);
  params->tiles_n = static_cast<std::uint32_t>(ChunksOf(problem.n) / kClusterChunks);
  return params;
}

// The grid has the parameters' tiles, or as many blocks as multiprocessors take.
template <int kTiling, class Decoder, class Params>
absl::Status LaunchTiles(const Params& params, const std::vector<ptx::DeviceBuffer>& buffers,
                         const LaunchTarget& target) {
  using Layout = WideLayout<kTiling, Decoder>;
  const std::uint32_t most =
      ptx::Multiprocessors() * Layout::kValues.blocks / Layout::kCluster * Layout::kCluster;
  ptx::LaunchShape shape;
  shape.kernel = "hopper/quant wide";
  shape.blocks_x = std::min(most, params.tiles_m * params.tiles_n * Layout::kCluster);
  shape.threads = Layout::kThreads;
  shape.cluster_size = Layout::kCluster;
  shape.shared_bytes = Layout::kSharedBytes;
  shape.overlaps_preceding = true;
  return ptx::Launch(WideProduct<kTiling, Decoder, Params>, shape, params, buffers, target);
}

template <int kTiling, class Decoder>
absl::Status LaunchWideOf(const Problem& problem, const Arguments& arguments,
                          const LaunchTarget& target) {
  absl::StatusOr<QuantParams> params = MakeWideParams<kTiling, Decoder>(problem, arguments);
  if (!params.ok()) return params.status();
  std::vector<ptx::DeviceBuffer> buffers = Buffers(problem, arguments);
  if constexpr (Decoder::kHasOffsets) {
    constexpr int kRows = WideLayout<kTiling, Decoder>::kRows;
    absl::Status status = LaunchRowSums<Decoder>(problem, arguments, kRows, target);
    if (!status.ok()) return status;
    params->row_sums = static_cast<const float*>(arguments.workspace);
    buffers.push_back(
        {arguments.workspace, RowSumBytes(Decoder::kFormat, problem.m, problem.k), "sums of rows"});
  }
  // With one row of tiles the weights are read once.
  params->weight_policy =
      params->tiles_m == 1 ? ptx::CachePolicy::kEvictFirst : ptx::CachePolicy::kNormal;
  return LaunchTiles<kTiling, Decoder>(*params, buffers, target);
}

inline ZeroKind ZeroKindOf(const Problem& problem) {
  if (problem.b_scaling.has_zero_points) return ZeroKind::kPlane;
  // Their codes are packed as those of the other type.
  const bool is_moved = problem.b.type == DataType::kInt4 || problem.b.type == DataType::kUint8;
  return is_moved ? ZeroKind::kMiddle : ZeroKind::kNone;
}

// A decoder's type, for a function of its value.
template <class T>
struct TypeTag {
  using Type = T;
};

template <class Rows, ZeroKind kZero, CodeFormat kFormat>
using IntegerDecoder =
    std::conditional_t<CodeOf(kFormat) == Code::kInt4, Int4Decoder<Rows, kZero, kFormat>,
                       Int8Decoder<Rows, kZero, kFormat>>;

// Calls f(TypeTag<the decoder of B for A's type>()).
template <CodeFormat kFormat, class Rows, class F>
absl::Status WithDecoderOf(const Problem& problem, const F& f) {
  constexpr Code kCode = CodeOf(kFormat);
  if constexpr (kCode == Code::kTable) {
    return f(TypeTag<TableDecoder<Rows, kFormat>>());
  } else if constexpr (kCode == Code::kE4m3) {
    return f(TypeTag<E4m3Decoder<Rows, kFormat>>());
  } else if constexpr (kCode == Code::kE5m2) {
    return f(TypeTag<E5m2Decoder<Rows, kFormat>>());
  } else if constexpr (CodeBits(kCode) == 6) {
    return f(TypeTag<SixBitDecoder<Rows, kFormat>>());
  } else if constexpr (HasOffsets(kFormat)) {
    // The codes of uint8 are packed as int8's.
    constexpr ZeroKind kZero = kCode == Code::kInt8 ? ZeroKind::kMiddle : ZeroKind::kNone;
    return f(TypeTag<IntegerDecoder<Rows, kZero, kFormat>>());
  } else {
    switch (ZeroKindOf(problem)) {
      case ZeroKind::kNone:
        return f(TypeTag<IntegerDecoder<Rows, ZeroKind::kNone, kFormat>>());
      case ZeroKind::kMiddle:
        return f(TypeTag<IntegerDecoder<Rows, ZeroKind::kMiddle, kFormat>>());
      case ZeroKind::kPlane:
        break;
    }
    return f(TypeTag<IntegerDecoder<Rows, ZeroKind::kPlane, kFormat>>());
  }
}
template <CodeFormat kFormat, class F>
absl::Status WithDecoder(const Problem& problem, const F& f) {
  if constexpr (kFormat == CodeFormat::kMxfp4) {
    return f(TypeTag<Mxfp4Decoder>());
  } else if constexpr (kFormat == CodeFormat::kNvfp4) {
    return f(TypeTag<Nvfp4Decoder>());
  } else {
    return problem.a.type == DataType::kBf16 ? WithDecoderOf<kFormat, Bf16Rows>(problem, f)
                                             : WithDecoderOf<kFormat, F16Rows>(problem, f);
  }
}

// The products in each tiling by B of each format; its planes are packed (packed.h).
// REQUIRES: what Rejection() of the family says; problem.m is at most the tiling's rows.
template <int kTiling, CodeFormat kFormat>
absl::Status LaunchFew(const Problem& problem, const Arguments& arguments,
                       const LaunchTarget& target) {
  return WithDecoder<kFormat>(problem, [&](auto decoder) {
    return LaunchFewOf<kTiling, typename decltype(decoder)::Type>(problem, arguments, target);
  });
}
template <int kTiling, CodeFormat kFormat>
absl::Status LaunchWide(const Problem& problem, const Arguments& arguments,
                        const LaunchTarget& target) {
  return WithDecoder<kFormat>(problem, [&](auto decoder) {
    return LaunchWideOf<kTiling, typename decltype(decoder)::Type>(problem, arguments, target);
  });
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
