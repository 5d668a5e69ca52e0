// Host code of batches of small products, compiled for the device and for the emulator.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/hopper/common/batch_steps.h"
#include "kernels/hopper/common/frame.h"
#include "kernels/hopper/small/product.h"
#include "kernels/hopper/small/small_batches.h"
#include "kernels/kernel.h"
#include "kernels/ptx/launch.h"

namespace gemmd::hopper::small {
inline namespace GEMMD_BACKEND {

// Returns whether that plane of every problem starts at a multiple of `bytes`.
inline bool StartsAtMultiples(absl::Span<const Arguments> batch, const BatchSteps& steps,
                              std::int64_t step, std::uint64_t bytes,
                              absl::FunctionRef<const void*(const Arguments&)> plane) {
  const auto is_multiple = [&](const Arguments& arguments) {
    return reinterpret_cast<std::uint64_t>(plane(arguments)) % bytes == 0;
  };
  if (!steps.are_equal) return std::all_of(batch.begin(), batch.end(), is_multiple);
  return is_multiple(batch[0]) && step % static_cast<std::int64_t>(bytes) == 0;
}

inline void SetEpilogue(const Problem& problem, BatchParams* params) {
  const Epilogue& epilogue = problem.epilogue;
  params->has_epilogue = epilogue.alpha != 1 || epilogue.beta != 0 || epilogue.has_bias ||
                         epilogue.activation != Activation::kNone;
  params->c_row_stride = problem.c.row_stride();
  params->c_column_stride = problem.c.column_stride();
  params->alpha = epilogue.alpha;
  params->beta = epilogue.beta;
  params->activation = epilogue.activation;
}

inline ProductPlanes PlanesAt(const Problem& problem, const Arguments& arguments) {
  ProductPlanes planes = {arguments.a, arguments.b, nullptr, nullptr, arguments.d};
  if (problem.epilogue.beta != 0) planes.c = arguments.c;
  if (problem.epilogue.has_bias) planes.bias = arguments.bias;
  return planes;
}

inline void AddBuffers(const Problem& problem, const ProductPlanes& planes,
                       std::vector<ptx::DeviceBuffer>* buffers) {
  buffers->push_back({planes.a, problem.a.size_bytes(), "A"});
  buffers->push_back({planes.b, problem.b.size_bytes(), "B"});
  buffers->push_back({planes.d, problem.d.size_bytes(), "D", false});
  if (planes.c != nullptr) buffers->push_back({planes.c, problem.c.size_bytes(), "C"});
  if (planes.bias != nullptr) {
    buffers->push_back({planes.bias,
                        static_cast<std::uint64_t>(problem.n * SizeBits(problem.d.type) / 8),
                        "bias"});
  }
}

using Product = void (*)(BatchParams);

// Kernels with a tile of these numbers for each warp, straight from global memory.
template <class Numbers_>
struct Tiny {
  using Numbers = Numbers_;
  static constexpr int kTileRows = Numbers::kRows * kBlock;
  static constexpr int kTileColumns = Numbers::kColumns * kBlock;
  static constexpr std::uint32_t kSharedBytes = 0;

  template <Reading kOfA, Reading kOfB>
  static Product Kernel() {
    return TinyProducts<Numbers, kOfA, kOfB>;
  }
  // Returns whether an operand is read in groups of neighbours: lines consist of whole ones.
  // `is_aligned(elements)`: all its lines start at multiples of so many.
  static bool ReadsGroups(const MatrixLayout& layout, bool is_k_major,
                          absl::FunctionRef<bool(std::int64_t elements)> is_aligned) {
    const std::int64_t together = is_k_major ? 4 : 2;
    if (layout.inner() % together != 0) return false;
    // Along K f64 is read by elements nevertheless.
    return (is_k_major && layout.type == DataType::kF64) || is_aligned(together);
  }
  static std::uint32_t Blocks(std::uint32_t tiles) { return (tiles + kWarps - 1) / kWarps; }
};

// Kernels through shared memory, for groups of kDown x kAcross warps.
template <class Numbers_, int kDown, int kAcross, int kStages, int kBlocks>
struct Small {
  using Numbers = Numbers_;
  using Layout = GroupLayout<Numbers, Reading::kFours, Reading::kFours, kDown, kAcross, kStages>;
  static constexpr int kTileRows = Layout::kTileRows;
  static constexpr int kTileColumns = Layout::kTileColumns;
  static constexpr std::uint32_t kSharedBytes = Layout::kSharedBytes;

  template <Reading kOfA, Reading kOfB>
  static Product Kernel() {
    return SmallProducts<Numbers, kOfA, kOfB, kDown, kAcross, kStages, kBlocks>;
  }
  // Lines start where copies of 16 bytes may.
  static bool ReadsGroups(const MatrixLayout& layout, bool /*is_k_major*/,
                          absl::FunctionRef<bool(std::int64_t elements)> is_aligned) {
    return is_aligned(128 / SizeBits(layout.type));
  }
  static std::uint32_t Blocks(std::uint32_t tiles) {
    const std::uint32_t groups = Layout::kGroups;
    return std::min((tiles + groups - 1) / groups, ptx::Multiprocessors() * kBlocks);
  }
};

// The kernel of a form whose operands are both read in groups.
template <class Form>
Product ProductOf(bool a_is_k_major, bool b_is_k_major) {
  constexpr Reading kFours = Reading::kFours;
  constexpr Reading kPairs = Reading::kPairs;
  if (a_is_k_major) {
    return b_is_k_major ? Form::template Kernel<kFours, kFours>()
                        : Form::template Kernel<kFours, kPairs>();
  }
  return b_is_k_major ? Form::template Kernel<kPairs, kFours>()
                      : Form::template Kernel<kPairs, kPairs>();
}

// Sets all parameters but the planes and the number of tiles.
inline BatchParams ParamsOf(const Problem& problem, const BatchSteps& steps, int tile_rows,
                            int tile_columns) {
  BatchParams params = {};
  params.a = {problem.a_row_stride(), problem.a_inner_stride(),
              static_cast<std::int32_t>(problem.m)};
  params.b = {problem.b_column_stride(), problem.b_inner_stride(),
              static_cast<std::int32_t>(problem.n)};
  params.k = static_cast<std::int32_t>(problem.k);
  params.row_tiles = FrameTiles(problem.m, tile_rows);
  params.column_tiles = FrameTiles(problem.n, tile_columns);
  params.d_row_stride = problem.d.row_stride();
  params.d_column_stride = problem.d.column_stride();
  params.writes_f32 = problem.d.type != problem.a.type;
  SetEpilogue(problem, &params);
  params.is_strided = steps.are_equal;
  params.a_step = steps.a;
  params.b_step = steps.b;
  params.c_step = steps.c;
  params.bias_step = steps.bias;
  params.d_step = steps.d;
  return params;
}

// Queues as many launches as the batch needs: one where its problems lie at equal distances.
// `product`: of a form that has `blocks(tiles)` blocks for so many tiles.
inline absl::Status LaunchParts(Product product, BatchParams params, std::uint32_t shared_bytes,
                                absl::FunctionRef<std::uint32_t(std::uint32_t tiles)> blocks,
                                const Problem& problem, absl::Span<const Arguments> batch,
                                const LaunchTarget& target) {
  const std::uint32_t tiles = params.row_tiles * params.column_tiles;
  constexpr std::uint32_t kMostTiles = 0x7f000000;
  const std::uint32_t most = params.is_strided ? kMostTiles / tiles : kScattered;
  for (std::size_t done = 0; done < batch.size();) {
    const absl::Span<const Arguments> part = batch.subspan(done, most);
    params.tiles = static_cast<std::uint32_t>(part.size()) * tiles;
    const std::size_t entries = params.is_strided ? 1 : part.size();
    for (std::size_t i = 0; i < entries; ++i) params.planes[i] = PlanesAt(problem, part[i]);
    std::vector<ptx::DeviceBuffer> buffers;
    GEMMD_IN_EMULATOR(for (const Arguments& arguments
                           : part) { AddBuffers(problem, PlanesAt(problem, arguments), &buffers); })
    ptx::LaunchShape shape;
    shape.kernel = "batch of small products";
    shape.blocks_x = blocks(params.tiles);
    shape.threads = 32 * kWarps;
    shape.shared_bytes = shared_bytes;
    shape.overlaps_preceding = true;
    const absl::Status status = ptx::Launch(product, shape, params, buffers, target);
    if (!status.ok()) return status;
    done += part.size();
  }
  return absl::OkStatus();
}

// Launches a batch by a form, or by the form `Ones`, element by element, where an operand is not
// read in groups of neighbours.
template <class Form, class Ones>
absl::Status LaunchForm(const Problem& problem, absl::Span<const Arguments> batch,
                        const LaunchTarget& target) {
  const BatchSteps steps = StepsOf(batch);
  const auto are_multiples = [&](std::int64_t step, std::int64_t elements, DataType type,
                                 absl::FunctionRef<const void*(const Arguments&)> plane) {
    return StartsAtMultiples(batch, steps, step,
                             static_cast<std::uint64_t>(elements * SizeBits(type) / 8), plane);
  };
  const auto reads_groups = [&](const MatrixLayout& layout, bool is_k_major, std::int64_t step,
                                absl::FunctionRef<const void*(const Arguments&)> plane) {
    return Form::ReadsGroups(layout, is_k_major, [&](std::int64_t elements) {
      return layout.leading_dimension % elements == 0 &&
             are_multiples(step, elements, layout.type, plane);
    });
  };
  const bool in_groups = reads_groups(problem.a, problem.a_is_k_major(), steps.a,
                                      [](const Arguments& arguments) { return arguments.a; }) &&
                         reads_groups(problem.b, problem.b_is_k_major(), steps.b,
                                      [](const Arguments& arguments) { return arguments.b; });
  BatchParams params = in_groups ? ParamsOf(problem, steps, Form::kTileRows, Form::kTileColumns)
                                 : ParamsOf(problem, steps, Ones::kTileRows, Ones::kTileColumns);
  // f64 is stored in units of 16 bytes.
  const std::int64_t in_store = problem.d.type == DataType::kF64 ? 2 : 4;
  params.stores_fours =
      !params.has_epilogue && !params.writes_f32 && problem.d.order == Order::kRowMajor &&
      problem.n % 4 == 0 && problem.d.leading_dimension % in_store == 0 &&
      are_multiples(steps.d, in_store, problem.d.type,
                    [](const Arguments& arguments) -> const void* { return arguments.d; });
  if (in_groups) {
    return LaunchParts(ProductOf<Form>(problem.a_is_k_major(), problem.b_is_k_major()), params,
                       Form::kSharedBytes, Form::Blocks, problem, batch, target);
  }
  return LaunchParts(Ones::template Kernel<Reading::kOnes, Reading::kOnes>(), params,
                     Ones::kSharedBytes, Ones::Blocks, problem, batch, target);
}

// Forms by the larger of M and N: up to 16, up to kOneWarpTo, and above. README.md says how they
// were chosen.
template <class Numbers11, class OneWarp, int kOneWarpTo, class FourWarps>
absl::Status LaunchBySize(const Problem& problem, absl::Span<const Arguments> batch,
                          const LaunchTarget& target) {
  using Form16 = Tiny<Numbers11>;
  const std::int64_t size = std::max(problem.m, problem.n);
  if (size <= kBlock) return LaunchForm<Form16, Form16>(problem, batch, target);
  if (size <= kOneWarpTo) return LaunchForm<OneWarp, Form16>(problem, batch, target);
  return LaunchForm<FourWarps, Form16>(problem, batch, target);
}

// REQUIRES: TakesBatch() (small_batches.h), and the family takes the problem.
template <int kNumbers>
absl::Status LaunchBatch(const Problem& problem, absl::Span<const Arguments> batch,
                         const LaunchTarget& target) {
  if constexpr (kNumbers == kF32Numbers) {
    using Numbers = F32Numbers<2, 2>;
    return LaunchBySize<F32Numbers<1, 1>, Small<Numbers, 1, 1, 2, 2>, 32,
                        Small<Numbers, 2, 2, 3, 2>>(problem, batch, target);
  } else if constexpr (kNumbers == kF64Numbers) {
    using Numbers = F64Numbers<2, 2>;
    return LaunchBySize<F64Numbers<1, 1>, Small<Numbers, 1, 1, 2, 3>, 64,
                        Small<Numbers, 2, 2, 4, 3>>(problem, batch, target);
  } else {
    constexpr bool kIsBf16 = kNumbers == kBf16Numbers;
    using OneWarp = Small<HalfNumbers<kIsBf16, 2, 2>, 1, 1, 2, 3>;
    return LaunchBySize<HalfNumbers<kIsBf16, 1, 1>, OneWarp, 64, OneWarp>(problem, batch, target);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::small
