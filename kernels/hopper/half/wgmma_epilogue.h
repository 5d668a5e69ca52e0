// D of products with an epilogue, or with f32 output: alpha, beta * C, bias, activation, in
// f32 and in the order of kernels/epilogue. A warp's sums pass through its box in shared
// memory, so that lanes then hold neighbours of one row: the loads of C and the stores of D are
// coalesced, and the code for an element exists once.
#pragma once

#include "kernels/epilogue/arithmetic.h"
#include "kernels/hopper/common/wgmma_types.h"
#include "kernels/hopper/half/tf32_element.h"
#include "kernels/hopper/half/wgmma_store.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {

template <class Element>
struct EpilogueTypeOf {
  using Type = epilogue::F16;
};
template <>
struct EpilogueTypeOf<Bf16Element> {
  using Type = epilogue::Bf16;
};
template <>
struct EpilogueTypeOf<Tf32Element> {
  using Type = epilogue::F32;
};

// The planes of the tile's problem.
struct FinishPlanes {
  void* d;
  const void* c;     // null: none
  const void* bias;  // null: none
};

template <class Params>
GEMMD_DEVICE FinishPlanes PlanesOf(const Params& params, const TileCorner& corner) {
  const WgmmaOperands& operands = OperandsOf(params, corner);
  FinishPlanes planes = {DataOfD(params, corner), operands.c, operands.bias};
  if constexpr (!Params::kIsOne) {
    const std::int64_t depth = DepthOf(params, corner);
    if (planes.c != nullptr) planes.c = static_cast<const char*>(planes.c) + depth * params.c_step;
    if (planes.bias != nullptr) {
      planes.bias = static_cast<const char*>(planes.bias) + depth * params.bias_step;
    }
  }
  return planes;
}

// Compiled without contraction, so that every tiling, the emulator and kernels/epilogue round
// the same operations.
template <class Out, class Params>
GEMMD_DEVICE float FinishElement(const Params& params, const FinishPlanes& planes, float sum,
                                 std::int32_t row, std::int32_t column) {
  using Storage = typename Out::Storage;
  float value = params.alpha * sum;
  if (planes.c != nullptr) {
    const Storage* c = static_cast<const Storage*>(planes.c) + row * params.c_row_stride +
                       column * params.c_column_stride;
    value += params.beta * Out::Widen(ptx::LoadGlobal(c));
  }
  if (planes.bias != nullptr) {
    const Storage* bias = static_cast<const Storage*>(planes.bias) + row * params.bias_row_step +
                          column * params.bias_column_step;
    value += Out::Widen(ptx::LoadGlobal(bias));
  }
  return epilogue::Activate(params.activation, value);
}

struct FourFloats {
  float value[4];
};

// Four neighbours of a row; `count` of them are inside D.
template <class Out, class Params>
GEMMD_DEVICE void FinishFour(const Params& params, const FinishPlanes& planes,
                             const FourFloats& sums, std::int32_t row, std::int32_t column,
                             std::int32_t count) {
  using Storage = typename Out::Storage;
  struct alignas(4 * sizeof(Storage)) Four {
    Storage value[4];
  };
  Four four;
  GEMMD_UNROLL
  for (int e = 0; e < 4; ++e) {
    if (e >= count) continue;
    four.value[e] = Out::Narrow(FinishElement<Out>(params, planes, sums.value[e], row, column + e));
  }
  Storage* const d = static_cast<Storage*>(planes.d) + row * params.d_row_stride + column;
  if (count >= 4) {
    ptx::StoreGlobal(reinterpret_cast<Four*>(d), four);
    return;
  }
  GEMMD_UNROLL
  for (int e = 0; e < 3; ++e) {
    if (e < count) ptx::StoreGlobal(d + e, four.value[e]);
  }
}

// A warp's 16 rows of kEpilogueColumns, staged in `box` as f32.
template <class Layout, class Out, class Params>
GEMMD_DEVICE void FinishBox(const Params& params, const FinishPlanes& planes,
                            ptx::SharedAddress box, std::uint32_t lane, std::int32_t first_row,
                            std::int32_t row_end, std::int32_t first_column) {
  constexpr std::uint32_t kChunks = Layout::kEpilogueColumns / 4;  // of four floats, in a row
  GEMMD_NO_UNROLL
  for (std::uint32_t i = lane; i < 16 * kChunks; i += 32) {
    const std::uint32_t line = i / kChunks;
    const std::uint32_t chunk = i % kChunks;
    const std::int32_t row = first_row + static_cast<std::int32_t>(line);
    const std::int32_t column = first_column + static_cast<std::int32_t>(chunk * 4);
    const auto sums =
        ptx::LoadShared<FourFloats>(box + line * (kChunks * 16) + (chunk ^ (line % kChunks)) * 16);
    if (row < row_end && column < params.n) {
      FinishFour<Out>(params, planes, sums, row, column, params.n - column);
    }
  }
}

// Sums as they are, each thread its own: a warp's stores fill units of 32 bytes.
template <class Layout, class Params>
GEMMD_DEVICE void StoreSums(const Params& params, const Consumer& me, Accumulators<Layout>& sums,
                            TileCorner corner) {
  struct alignas(8) Pair {
    float value[2];
  };
  const std::int32_t first_row = corner.m + static_cast<std::int32_t>(me.warp * 16 + me.lane / 4);
  const std::int32_t first_column = corner.n + static_cast<std::int32_t>(me.lane % 4 * 2);
  auto* const d = static_cast<float*>(DataOfD(params, corner)) + first_column;
  GEMMD_UNROLL
  for (int i = 0; i < 2 * Layout::kRowBlocks; ++i) {
    const std::int32_t row = first_row + i / 2 * 64 + i % 2 * 8;
    if (row >= corner.m_end) continue;
    float* const line = d + row * params.d_row_stride;
    GEMMD_UNROLL
    for (int j = 0; j < Layout::kTileN / 8; ++j) {
      const float* const v = &sums[i / 2][j * 4 + i % 2 * 2];
      const std::int32_t column = first_column + j * 8;
      if (column + 1 < params.n) {
        ptx::StoreGlobal(reinterpret_cast<Pair*>(line + j * 8), Pair{{v[0], v[1]}});
      } else if (column < params.n) {
        ptx::StoreGlobal(line + j * 8, v[0]);
      }
    }
  }
}

template <class Layout, class Element, class Params>
GEMMD_DEVICE void FinishTile(const Params& params, const Consumer& me, Accumulators<Layout>& sums,
                             ptx::SharedAddress output, TileCorner corner) {
  constexpr int kColumns = Layout::kEpilogueColumns;
  constexpr std::uint32_t kChunks = kColumns / 4;
  struct Pair {
    float value[2];
  };
  const FinishPlanes planes = PlanesOf(params, corner);
  const ptx::SharedAddress box = output + me.warp * Layout::kWarpBoxBytes;
  GEMMD_UNROLL
  for (int i = 0; i < Layout::kRowBlocks; ++i) {
    GEMMD_UNROLL
    for (int c = 0; c < Layout::kTileN / kColumns; ++c) {
      GEMMD_UNROLL
      for (int j = 0; j < kColumns / 8; ++j) {
        GEMMD_UNROLL
        for (int half = 0; half < 2; ++half) {
          const float* v = &sums[i][(c * (kColumns / 8) + j) * 4 + half * 2];
          const std::uint32_t line = me.lane / 4 + half * 8;
          const std::uint32_t chunk = j * 2 + me.lane % 4 / 2;
          ptx::StoreShared(
              box + line * (kChunks * 16) + (chunk ^ (line % kChunks)) * 16 + me.lane % 2 * 8,
              Pair{{v[0], v[1]}});
        }
      }
      ptx::SyncWarp();
      const std::int32_t row = corner.m + i * 64 + static_cast<std::int32_t>(me.warp) * 16;
      const std::int32_t column = corner.n + c * kColumns;
      if (params.writes_f32) {
        FinishBox<Layout, epilogue::F32>(params, planes, box, me.lane, row, corner.m_end, column);
      } else {
        FinishBox<Layout, typename EpilogueTypeOf<Element>::Type>(params, planes, box, me.lane, row,
                                                                  corner.m_end, column);
      }
      ptx::SyncWarp();
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
