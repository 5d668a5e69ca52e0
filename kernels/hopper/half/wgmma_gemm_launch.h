// Host code of the Hopper GEMM, compiled for the device and for the emulator.
#pragma once

#include <algorithm>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/hopper/common/frame.h"
#include "kernels/hopper/half/device_places.h"
#include "kernels/hopper/half/wgmma_gemm.h"
#include "kernels/hopper/half/wgmma_gemm_maps.h"
#include "kernels/kernel.h"
#include "kernels/ptx/launch.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

// Boxes are asked into the L2 ahead of the grid's turn. Operands of up to kSpreadBelowBytes have
// kSpreadBytes asked for, by every block; those of up to kEarlyBelowBytes have kEarlyBytes, by as
// many blocks as multiprocessors are idle. Larger ones have none: where the kernel streams, hints
// compete with its loads. Figures: docs/lab/hopper-launches.md.
inline constexpr std::uint64_t kSpreadBelowBytes = 8 << 20;
inline constexpr std::uint64_t kSpreadBytes = 2 << 20;
inline constexpr std::uint64_t kEarlyBelowBytes = 16 << 20;
inline constexpr std::uint64_t kEarlyBytes = 2 << 20;
// The tiles of one launch: what numbers of 32 bits count, with room for a wave past the end.
inline constexpr std::uint32_t kMaxTiles = 0x7ffffc00;

template <class Params>
void SetEpilogue(const Problem& problem, const Frame& frame, Params* params) {
  const Epilogue& epilogue = problem.epilogue;
  params->c_row_stride = frame.is_swapped ? problem.c.column_stride() : problem.c.row_stride();
  params->c_column_stride = frame.is_swapped ? problem.c.row_stride() : problem.c.column_stride();
  params->bias_row_step = frame.is_swapped ? 1 : 0;
  params->bias_column_step = frame.is_swapped ? 0 : 1;
  params->alpha = static_cast<float>(epilogue.alpha);
  params->beta = static_cast<float>(epilogue.beta);
  params->activation = epilogue.activation;
  params->writes_f32 = problem.d.type == DataType::kF32;
  params->writes_sums = params->writes_f32 && epilogue.alpha == 1 && epilogue.beta == 0 &&
                        !epilogue.has_bias && epilogue.activation == Activation::kNone;
}

template <class Layout, class Params>
std::uint32_t GridClusters(const Params& params) {
  const std::uint32_t most = std::max(1u, ptx::Multiprocessors() / Layout::kCluster);
  return std::min(most, params.raster.tiles_m * params.raster.tiles_n * params.problems);
}

template <class Layout, class Params>
void SetPrefetch(const Problem& problem, Params* params) {
  const std::uint64_t bytes = problem.a.size_bytes() + problem.b.size_bytes();
  if (bytes > kEarlyBelowBytes) return;
  const bool is_spread = bytes <= kSpreadBelowBytes;
  const std::uint32_t blocks = GridClusters<Layout>(*params) * Layout::kCluster;
  const std::uint32_t idle = ptx::Multiprocessors() - std::min(ptx::Multiprocessors(), blocks);
  params->prefetchers = is_spread ? blocks : std::min(idle, blocks);
  const std::uint64_t k_blocks = (static_cast<std::uint64_t>(problem.k) + kTileK - 1) / kTileK;
  const std::uint64_t k_block_bytes =
      static_cast<std::uint64_t>(problem.m + problem.n) * kSpanBytes;
  params->prefetched = static_cast<std::uint32_t>(
      std::min(k_blocks, (is_spread ? kSpreadBytes : kEarlyBytes) / k_block_bytes));
}

// A launch whose blocks take more cycles than this is long: what it gains by beginning early no
// longer pays for walking K out of step. In step, neighbours ask for the same lines together, and
// the L2 answers once. Figures: docs/lab/hopper-launches.md.
inline constexpr double kLongLaunchCycles = 60e3;

// Returns whether a grid whose operands are settled still begins only when the one ahead has ended:
// because it goes by place, or because it is long and leaves no room for the next. A grid of
// several waves that products bind begins early nevertheless: a last wave leaves multiprocessors
// idle.
template <class Layout, class Params>
bool KeepsItsTurn(const Params& params) {
  constexpr double kBlockCycles = Layout::kValues.k_block_cycles;
  constexpr double kProductCycles = Layout::kTileM * Layout::kTileN / 32.0;  // of a block of K
  constexpr bool kLoadsBind = kBlockCycles > 1.05 * kProductCycles;
  const std::uint32_t tiles = params.raster.tiles_m * params.raster.tiles_n * params.problems;
  const std::uint32_t clusters = GridClusters<Layout>(params);
  const std::uint32_t waves = (tiles + clusters - 1) / clusters;
  const std::int32_t k_blocks = (params.k + kTileK - 1) / kTileK;
  const bool is_long = waves * k_blocks * kBlockCycles > kLongLaunchCycles;
  const bool fills = 2 * clusters * Layout::kCluster > ptx::Multiprocessors();
  return params.is_placed || (is_long && fills && (kLoadsBind || waves == 1));
}

// Sets what is loaded before the grid's turn. If one operand is settled: one block of K, because
// more of them stand in the way of the other operand's first boxes; or as many as the ring holds,
// where few rows are read, or where a grid leaves room for the next, which then waits on
// multiprocessors of its own. If both are settled: everything, without hints to the L2; or B alone,
// where the grid keeps its turn.
template <class Layout, class Params>
void SetSettled(const Frame& frame, absl::Span<const Arguments> batch, Params* params) {
  params->settled = SettledOperands::kNone;
  params->ahead = 0;
  bool a = true;
  bool b = true;
  for (const Arguments& arguments : batch) {
    a = a && arguments.a_is_settled;
    b = b && arguments.b_is_settled;
  }
  if (a && b && !KeepsItsTurn<Layout>(*params)) {
    params->settled = SettledOperands::kBoth;
    params->prefetched = 0;
    return;
  }
  if (!Params::kIsOne || !(a || b)) return;
  const bool is_rows = b == frame.is_swapped;
  params->settled = is_rows ? SettledOperands::kRows : SettledOperands::kColumns;
  const std::uint32_t blocks = GridClusters<Layout>(*params) * Layout::kCluster;
  const bool has_time = params->raster.tiles_m == 1 || 2 * blocks <= ptx::Multiprocessors();
  params->ahead = Layout::kConsumers == 1 && has_time ? Layout::kStages : 1;
}

// Sets all parameters but the operands. Rows of tiles have at most `longest` rows that belong
// together: those of the frame, or of the longest group.
template <class Layout, class Element, class Params>
void SetShape(const Problem& problem, const Config& config, const Frame& frame,
              std::uint32_t rows_of_tiles, std::int64_t longest, Params* params) {
  constexpr int kClusterRows = Layout::kTileM * Layout::kClusterM;
  params->m = static_cast<std::int32_t>(frame.rows.lines);
  params->n = static_cast<std::int32_t>(frame.columns.lines);
  params->k = static_cast<std::int32_t>(problem.k);
  params->k_step =
      kTileK / static_cast<std::int32_t>(ptx::TensorElementBytes(Element::kMapElement) / 2);
  params->raster =
      MakeRaster(rows_of_tiles, FrameTiles(frame.columns.lines, Layout::kTileN * Layout::kClusterN),
                 static_cast<std::uint32_t>(std::max(1, config.raster_group)),
                 static_cast<RasterOrder>(config.raster_order));
  params->d_row_stride = frame.d_row_stride;
  // Rows outside the tensor cost a box as much as rows inside.
  params->box_rows = Layout::kTileM;
  params->stage_bytes = Layout::kLoadedBytes;
  if (Layout::Rows::kIsKMajor && Layout::kCluster == 1 && longest < Layout::kTileM) {
    params->box_rows = static_cast<std::uint32_t>((longest + 7) / 8 * 8);
    params->stage_bytes -= (Layout::kTileM - params->box_rows) * kSpanBytes;
  }
  // With one row of tiles, each column's operand is read once.
  params->column_policy = longest <= kClusterRows && Layout::kCluster == 1
                              ? ptx::CachePolicy::kEvictFirst
                              : ptx::CachePolicy::kNormal;
  params->problems = 1;
  SetEpilogue(problem, frame, params);
  SetPrefetch<Layout>(problem, params);
}

template <class Layout, class Element, class Params>
void SetShape(const Problem& problem, const Config& config, const Frame& frame, Params* params) {
  const std::int64_t lines = frame.rows.lines;
  SetShape<Layout, Element>(problem, config, frame,
                            FrameTiles(lines, Layout::kTileM * Layout::kClusterM), lines, params);
}

inline void AddBuffers(const Problem& problem, const Arguments& arguments,
                       std::vector<ptx::DeviceBuffer>* buffers) {
  buffers->push_back({arguments.a, problem.a.size_bytes(), "A", true, arguments.a_is_settled});
  buffers->push_back({arguments.b, problem.b.size_bytes(), "B", true, arguments.b_is_settled});
  buffers->push_back({arguments.d, problem.d.size_bytes(), "D", false});
  if (problem.epilogue.beta != 0) buffers->push_back({arguments.c, problem.c.size_bytes(), "C"});
  if (problem.epilogue.has_bias) {
    buffers->push_back({arguments.bias,
                        static_cast<std::uint64_t>(problem.n * SizeBits(problem.d.type) / 8),
                        "bias"});
  }
}

// Queues one launch. `buffers`: what the emulator lets it touch.
template <int kTiling, class Element, Major kRowMajor, Major kColumnMajor, bool kHasEpilogue,
          class Params>
absl::Status Queue(const Params& params, const std::vector<ptx::DeviceBuffer>& buffers,
                   const LaunchTarget& target) {
  using Layout = WgmmaLayout<kTiling, kRowMajor, kColumnMajor>;
  ptx::LaunchShape shape;
  shape.kernel = Layout::kValues.name;
  shape.blocks_x = GridClusters<Layout>(params) * Layout::kCluster;
  shape.threads = Layout::kThreads;
  shape.cluster_size = Layout::kCluster;
  shape.shared_bytes = Layout::kSharedBytes;
  // Places hold for a grid that has the device to itself, not for one that begins in another's
  // gaps.
  shape.overlaps_preceding = !params.is_placed;
  return ptx::Launch(WgmmaGemm<kTiling, Element, kRowMajor, kColumnMajor, kHasEpilogue, Params>,
                     shape, params, buffers, target);
}

// Queues one launch. REQUIRES: params.operands are those of the batch.
template <int kTiling, class Element, Major kRowMajor, Major kColumnMajor, bool kHasEpilogue,
          class Params>
absl::Status Queue(const Problem& problem, const Params& params, absl::Span<const Arguments> batch,
                   const LaunchTarget& target) {
  std::vector<ptx::DeviceBuffer> buffers;
  GEMMD_IN_EMULATOR(for (const Arguments& arguments
                         : batch) AddBuffers(problem, arguments, &buffers);)
  return Queue<kTiling, Element, kRowMajor, kColumnMajor, kHasEpilogue>(params, buffers, target);
}

// Queues as many launches as the batch needs: one where its problems lie at equal distances.
template <int kTiling, class Element, Major kRowMajor, Major kColumnMajor, bool kHasEpilogue>
absl::Status QueueBatch(const Problem& problem, const Config& config,
                        absl::Span<const Arguments> batch, const LaunchTarget& target) {
  using Layout = WgmmaLayout<kTiling, kRowMajor, kColumnMajor>;
  WgmmaBatchParams params = {};
  const hopper::BatchSteps steps = hopper::StepsOf(batch);
  // One map of three dimensions for all.
  const bool is_strided = steps.are_equal && hopper::IsTensorStep(steps.a) &&
                          hopper::IsTensorStep(steps.b) && hopper::IsTensorStep(steps.d);
  const Frame frame = MakeFrame(problem, batch[0]);
  SetShape<Layout, Element>(problem, config, frame, &params);
  params.prefetched = 0;
  params.is_strided = is_strided;
  params.stores_by_map = !kHasEpilogue && !Layout::kStoresByUnit;
  params.d_step = steps.d;
  params.c_step = steps.c;
  params.bias_step = steps.bias;
  const std::size_t most =
      is_strided ? kMaxTiles / (params.raster.tiles_m * params.raster.tiles_n) : kBatchCapacity;
  for (std::size_t done = 0; done < batch.size();) {
    const absl::Span<const Arguments> part = batch.subspan(done, most);
    params.problems = static_cast<std::uint32_t>(part.size());
    SetSettled<Layout>(frame, part, &params);
    const std::size_t entries = is_strided ? 1 : part.size();
    for (std::size_t i = 0; i < entries; ++i) {
      const absl::StatusOr<WgmmaOperands> operands = MakeOperands<Layout, Element, kHasEpilogue>(
          problem, MakeFrame(problem, part[i]), part[i], params.box_rows,
          {Products::kBatch, is_strided ? part.size() : 1, steps});
      if (!operands.ok()) return operands.status();
      params.operands[i] = *operands;
    }
    const absl::Status status = Queue<kTiling, Element, kRowMajor, kColumnMajor, kHasEpilogue>(
        problem, params, part, target);
    if (!status.ok()) return status;
    done += part.size();
  }
  return absl::OkStatus();
}

template <int kTiling, class Element, Major kRowMajor, Major kColumnMajor, bool kHasEpilogue>
absl::Status LaunchWgmmaGemm(const Problem& problem, const Config& config, const Frame& frame,
                             absl::Span<const Arguments> batch, const LaunchTarget& target) {
  using Layout = WgmmaLayout<kTiling, kRowMajor, kColumnMajor>;
  if constexpr (TakesBatches(Layout::kValues)) {
    if (batch.size() > 1) {
      return QueueBatch<kTiling, Element, kRowMajor, kColumnMajor, kHasEpilogue>(problem, config,
                                                                                 batch, target);
    }
  }
  WgmmaGemmParams params = {};
  SetShape<Layout, Element>(problem, config, frame, &params);
  const absl::StatusOr<WgmmaOperands> operands = MakeOperands<Layout, Element, kHasEpilogue>(
      problem, frame, batch[0], params.box_rows, MapDepth());
  if (!operands.ok()) return operands.status();
  params.operands[0] = *operands;
  if (config.by_place != 0 && Layout::kCluster == 2) {
    const absl::StatusOr<DevicePlaces> known = PlacesOfPairs();
    if (!known.ok()) return known.status();
    params.is_placed = known->clusters == GridClusters<Layout>(params);
    params.places = known->places;
  }
  SetSettled<Layout>(frame, batch, &params);
  return Queue<kTiling, Element, kRowMajor, kColumnMajor, kHasEpilogue>(problem, params, batch,
                                                                        target);
}

// Chooses the kernel of the operands' majors. REQUIRES: Rejection() of the tiling's entry is empty.
template <int kTiling, class Element, bool kHasEpilogue>
absl::Status LaunchByMajor(const Problem& problem, const Config& config,
                           absl::Span<const Arguments> batch, const LaunchTarget& target) {
  const Frame frame = MakeFrame(problem, batch[0]);
  const auto launch = [&](auto row_major, auto column_major) {
    return LaunchWgmmaGemm<kTiling, Element, decltype(row_major)::value,
                           decltype(column_major)::value, kHasEpilogue>(problem, config, frame,
                                                                        batch, target);
  };
  constexpr std::integral_constant<Major, Major::kK> kK;
  constexpr std::integral_constant<Major, Major::kMn> kMn;
  if constexpr (kTilings[kTiling].takes_mn_rows) {
    if (!frame.rows.is_k_major) {
      if constexpr (kTilings[kTiling].takes_mn_columns) {
        if (!frame.columns.is_k_major) return launch(kMn, kMn);
      }
      return launch(kMn, kK);
    }
  }
  if constexpr (kTilings[kTiling].takes_mn_columns) {
    if (!frame.columns.is_k_major) return launch(kK, kMn);
  }
  return launch(kK, kK);
}

template <int kTiling, class Element>
absl::Status LaunchByEpilogue(const Problem& problem, const Config& config,
                              absl::Span<const Arguments> batch, const LaunchTarget& target) {
  if constexpr (kTilings[kTiling].has_epilogue) {
    if (NeedsEpilogue(problem)) {
      return LaunchByMajor<kTiling, Element, true>(problem, config, batch, target);
    }
  }
  return LaunchByMajor<kTiling, Element, false>(problem, config, batch, target);
}

// Launches one problem, or, where the tiling TakesBatches(), a batch of equal ones.
template <int kTiling>
absl::Status LaunchTiling(const Problem& problem, const Config& config,
                          absl::Span<const Arguments> batch, const LaunchTarget& target) {
  if (problem.a.type == DataType::kBf16) {
    return LaunchByEpilogue<kTiling, Bf16Element>(problem, config, batch, target);
  }
  return LaunchByEpilogue<kTiling, F16Element>(problem, config, batch, target);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
