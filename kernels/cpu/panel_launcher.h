// Computes D for a CPU kernel, unit by unit; units.h says how large.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/math.h"
#include "kernels/cpu/element_types.h"
#include "kernels/cpu/line_decoder.h"
#include "kernels/cpu/operand_view.h"
#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/row_gemm.h"
#include "kernels/cpu/store_unit.h"
#include "kernels/cpu/units.h"
#include "kernels/kernel.h"

namespace gemmd {

// K is cut into pieces of this many for int8; see panel_gemm.h.
inline constexpr std::int64_t kExactTerms = 1024;

// Where a launch keeps its intermediate values, as offsets into the workspace. No larger than the
// problem needs: who has few rows may have a long K, and fewer units than there are workers.
template <typename Product>
struct PanelWorkspace {
  PanelWorkspace(const Problem& problem, int workers)
      : units(problem.m, problem.n, problem.k * kTimesF32, workers, Units::kMostRows,
              kWidened ? Units::kLeastDecodedRows : Units::kLeastRows),
        slots(std::min<std::int64_t>(workers, units.count())),
        panel_bytes(PacksRows(problem)
                        ? RoundUp(units.rows() * problem.k * sizeof(typename Product::Multiply), 64)
                        : 0),
        tile_bytes(
            WritesInPlace(problem)
                ? 0
                : RoundUp(units.rows() * units.columns() * sizeof(typename Product::Multiply), 64)),
        sum_bytes(kSummed ? RoundUp(units.rows() * units.columns() * sizeof(std::int32_t), 64) : 0),
        slot_bytes(panel_bytes + tile_bytes + sum_bytes),
        total_bytes(slot_bytes * slots) {}

  // kTimesF32: the time that a product takes, by f32's. kWidened: operands are converted before
  // they are multiplied. kSummed: products of pieces of K are summed as integers.
  static constexpr std::int64_t kTimesF32 =
      std::is_same_v<typename Product::Multiply, double> ? 2 : 1;
  static constexpr bool kWidened =
      !std::is_same_v<typename Product::A::Storage, typename Product::Multiply>;
  static constexpr bool kSummed =
      !std::is_same_v<typename Product::Accumulate, typename Product::Multiply>;

  // Rows of op(A) are read where they are if they can be.
  static bool PacksRows(const Problem& problem) { return kWidened || !problem.a_is_k_major(); }

  // Products go straight into D if nothing is done to them: the bits are those of a tile.
  static bool WritesInPlace(const Problem& problem) {
    const Epilogue& e = problem.epilogue;
    return !kWidened && problem.d.type == Product::A::kType &&
           problem.d.order == Order::kRowMajor && e.alpha == 1 && e.beta == 0 && !e.has_bias &&
           e.activation == Activation::kNone;
  }

  const Units units;
  const std::int64_t slots;         // units at work at a time, at most
  const std::uint64_t panel_bytes;  // of a slot: its unit's rows of op(A)
  const std::uint64_t tile_bytes;   // one product
  const std::uint64_t sum_bytes;    // the int32 sum of them
  const std::uint64_t slot_bytes;
  const std::uint64_t total_bytes;
};

// One product on the way: lives as long as its launch.
template <typename Product>
class PanelLauncher {
 public:
  using Multiply = typename Product::Multiply;
  // `workers`: as many as the workspace is for; the executor has no more.
  PanelLauncher(const Problem& problem, const Arguments& arguments, int workers,
                ParallelExecutor* executor)
      : problem_(problem),
        arguments_(arguments),
        executor_(executor),
        workspace_(problem, workers),
        a_(ViewOfA(problem, arguments)),
        b_(ViewOfB(problem, arguments)),
        slots_(workspace_.slots),
        held_(static_cast<std::size_t>(workspace_.slots), kNoRow) {}

  void Run() {
    executor_->Run(workspace_.units.count(), [this](int, std::int64_t index) {
      const std::int64_t slot = slots_.Take();
      RunUnit(slot, workspace_.units[index]);
      slots_.Give(slot);
    });
  }

 private:
  template <typename T>
  T* At(std::uint64_t offset) const {
    return reinterpret_cast<T*>(static_cast<char*>(arguments_.workspace) + offset);
  }

  // The unit's rows of op(A) with neighbouring elements of K side by side. A slot keeps them until
  // it gets a unit of other rows.
  const Multiply* Panel(std::int64_t slot, const Unit& unit, std::int64_t* leading_dimension) {
    const auto* a = static_cast<const typename Product::A::Storage*>(arguments_.a) +
                    unit.first_row * problem_.a_row_stride();
    if constexpr (!PanelWorkspace<Product>::kWidened) {
      if (!PanelWorkspace<Product>::PacksRows(problem_)) {
        *leading_dimension = problem_.a.leading_dimension;
        return a;
      }
    }
    *leading_dimension = problem_.k;
    auto* panel = At<Multiply>(slot * workspace_.slot_bytes);
    std::int64_t& held = held_[static_cast<std::size_t>(slot)];
    if (held == unit.first_row) return panel;
    held = unit.first_row;
    if constexpr (PanelWorkspace<Product>::kWidened) {
      a_.Lines(unit.first_row, unit.rows, kUnscaled, panel);
    } else {
      for (std::int64_t inner = 0; inner < problem_.k; ++inner) {
        for (std::int64_t row = 0; row < unit.rows; ++row) {
          panel[row * problem_.k + inner] =
              a[row * problem_.a_row_stride() + inner * problem_.a_inner_stride()];
        }
      }
    }
    return panel;
  }

  // The product of the unit's rows of A and columns of B, over a piece of K.
  void MultiplyPiece(const Unit& unit, const Multiply* a, std::int64_t lda, std::int64_t k,
                     std::int64_t depth, Multiply* c, std::int64_t ldc) const {
    if constexpr (PanelWorkspace<Product>::kWidened) {
      const DecodedColumns<Multiply> b(b_, unit.first_column, k, kUnscaled);
      RowGemm(b.columns(), unit.rows, unit.columns, depth, a + k, lda, c, ldc);
    } else {
      const bool has_lines_of_k = problem_.b_is_k_major();
      const std::int64_t pitch = problem_.b.leading_dimension;
      const Multiply* const b = static_cast<const Multiply*>(arguments_.b) +
                                unit.first_column * (has_lines_of_k ? pitch : 1);
      RowGemm<Multiply>({has_lines_of_k, b, pitch}, unit.rows, unit.columns, depth, a + k, lda, c,
                        ldc);
    }
  }

  void RunUnit(std::int64_t slot, const Unit& unit) {
    std::int64_t lda;
    const Multiply* a = Panel(slot, unit, &lda);
    auto* tile = At<Multiply>(slot * workspace_.slot_bytes + workspace_.panel_bytes);
    if constexpr (PanelWorkspace<Product>::kSummed) {
      auto* sum = At<std::int32_t>(slot * workspace_.slot_bytes + workspace_.panel_bytes +
                                   workspace_.tile_bytes);
      std::fill(sum, sum + unit.rows * unit.columns, 0);
      for (std::int64_t k = 0; k < problem_.k; k += kExactTerms) {
        MultiplyPiece(unit, a, lda, k, std::min(kExactTerms, problem_.k - k), tile, unit.columns);
        for (std::int64_t i = 0; i < unit.rows * unit.columns; ++i) {
          sum[i] += static_cast<std::int32_t>(tile[i]);
        }
      }
      StoreAs(unit, sum);
    } else {
      std::int64_t ldd = unit.columns;
      if (PanelWorkspace<Product>::WritesInPlace(problem_)) {
        ldd = problem_.d.leading_dimension;
        tile = static_cast<Multiply*>(arguments_.d) + unit.first_row * ldd + unit.first_column;
      }
      MultiplyPiece(unit, a, lda, 0, problem_.k, tile, ldd);
      if (!PanelWorkspace<Product>::WritesInPlace(problem_)) StoreAs(unit, tile);
    }
  }

  template <typename T>
  void StoreAs(const Unit& unit, const T* sums) const {
    using E = typename Product::Epilogue;
    const auto scale = [](const Scaling& scaling, const void* scales, std::int64_t index) -> E {
      if (!Product::kScaled || scaling == Scaling::kNone) return 1;
      return static_cast<const float*>(scales)[scaling == Scaling::kVector ? index : 0];
    };
    StoreUnit<E>(
        problem_, arguments_, unit, sums, unit.columns,
        [&](std::int64_t row) { return scale(problem_.a_scaling, arguments_.a_scales, row); },
        [&](std::int64_t column) {
          return scale(problem_.b_scaling, arguments_.b_scales, column);
        });
  }

  const Problem& problem_;
  const Arguments& arguments_;
  ParallelExecutor* const executor_;
  const PanelWorkspace<Product> workspace_;
  const LineDecoder a_;
  const LineDecoder b_;
  SlotPool slots_;
  static constexpr std::int64_t kNoRow = -1;
  static constexpr const double* kUnscaled = nullptr;
  std::vector<std::int64_t> held_;  // by slot, the first row of op(A) in its panel
};

}  // namespace gemmd
