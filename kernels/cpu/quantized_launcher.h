// Multiplies quantized operands for a CPU kernel: B is decoded once, A by the rows of a unit, and
// units of D are computed as panel_launcher.h does it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/cpu/line_decoder.h"
#include "kernels/cpu/operand_view.h"
#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/row_gemm.h"
#include "kernels/cpu/store_unit.h"
#include "kernels/cpu/units.h"
#include "kernels/kernel.h"

namespace gemmd {

// The type that operands are decoded to, and the way products are summed.
enum class QuantizedSum : std::uint8_t {
  kF32,       // f32, each element one chain of FMAs
  kF64,       // f64 likewise
  kIntegers,  // exact within a piece of K, pieces in f64
};

// A sum of this many products of integers up to 255 in magnitude is below 2^24, which f32 holds.
inline constexpr std::int64_t kExactPiece = 256;

// Where a launch keeps its intermediate values, as offsets into the workspace.
template <QuantizedSum kSum>
struct QuantizedWorkspace {
  using Real = std::conditional_t<kSum == QuantizedSum::kF64, double, float>;

  QuantizedWorkspace(const Problem& problem, int workers)
      : units(problem.m, problem.n, workers, kMostRows),
        slots(std::min<std::int64_t>(workers, units.count())),
        panel_bytes(RoundUpTo64(Bytes(units.rows() * problem.k, sizeof(Real)))),
        tile_bytes(RoundUpTo64(Bytes(units.rows() * units.columns(), sizeof(Real)))),
        sum_bytes(kSum == QuantizedSum::kIntegers
                      ? RoundUpTo64(Bytes(units.rows() * units.columns(), sizeof(double)))
                      : 0),
        slot_bytes(panel_bytes + tile_bytes + sum_bytes),
        row_scales(slot_bytes * static_cast<std::uint64_t>(slots)),
        column_scales(row_scales + RoundUpTo64(Bytes(problem.m, sizeof(double)))),
        wide_b(column_scales + RoundUpTo64(Bytes(problem.n, sizeof(double)))),
        total_bytes(wide_b + Bytes(problem.k * problem.n, sizeof(Real))) {}

  static std::uint64_t Bytes(std::int64_t count, std::size_t size) {
    return static_cast<std::uint64_t>(count) * size;
  }

  // A unit's sums of pieces stay in the second cache.
  static constexpr std::int64_t kMostRows =
      kSum == QuantizedSum::kIntegers ? kPanelRows : Units::kMostRows;

  const Units units;
  const std::int64_t slots;         // units at work at a time, at most
  const std::uint64_t panel_bytes;  // of a slot: its unit's rows of op(A), decoded
  const std::uint64_t tile_bytes;   // one product
  const std::uint64_t sum_bytes;    // the f64 sum of them
  const std::uint64_t slot_bytes;
  const std::uint64_t row_scales;  // line scales of A, and of B
  const std::uint64_t column_scales;
  const std::uint64_t wide_b;  // B, decoded, each column contiguous
  const std::uint64_t total_bytes;
};

// One product on the way: lives as long as its launch.
template <QuantizedSum kSum>
class QuantizedLauncher {
 public:
  using Real = typename QuantizedWorkspace<kSum>::Real;

  // `workers`: as many as the workspace is for; the executor has no more.
  QuantizedLauncher(const Problem& problem, const Arguments& arguments, int workers,
                    ParallelExecutor* executor)
      : problem_(problem),
        arguments_(arguments),
        executor_(executor),
        workspace_(problem, workers),
        a_view_(ViewOfA(problem, arguments)),
        b_view_(ViewOfB(problem, arguments)),
        a_(a_view_),
        b_(b_view_),
        slots_(workspace_.slots),
        held_(static_cast<std::size_t>(workspace_.slots), kNoRow) {}

  void Run() {
    const std::int64_t strips = UnitsIn(problem_.n, kPanelRows);
    executor_->Run(strips, [this](int, std::int64_t strip) {
      const std::int64_t first = strip * kPanelRows;
      const std::int64_t lines = std::min(kPanelRows, problem_.n - first);
      FindScales(b_, first, lines, ColumnScales() + first);
      DecodeLines(b_, first, lines, ColumnScales() + first, WideB() + first * problem_.k);
    });
    FindScales(a_, 0, problem_.m, RowScales());
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
  double* RowScales() const { return At<double>(workspace_.row_scales); }
  double* ColumnScales() const { return At<double>(workspace_.column_scales); }
  Real* WideB() const { return At<Real>(workspace_.wide_b); }

  static void FindScales(const LineDecoder& decoder, std::int64_t first, std::int64_t lines,
                         double* scales) {
    for (std::int64_t i = 0; i < lines; ++i) scales[i] = decoder.LineScale(first + i);
  }

  static void DecodeLines(const LineDecoder& decoder, std::int64_t first, std::int64_t lines,
                          const double* scales, Real* out) {
    if constexpr (kSum == QuantizedSum::kIntegers) {
      decoder.Integers(first, lines, out);
    } else {
      decoder.Values(first, lines, scales, out);
    }
  }

  // A slot keeps its rows of op(A) until it gets a unit of others.
  const Real* Panel(std::int64_t slot, const Unit& unit) {
    auto* panel = At<Real>(static_cast<std::uint64_t>(slot) * workspace_.slot_bytes);
    std::int64_t& held = held_[static_cast<std::size_t>(slot)];
    if (held == unit.first_row) return panel;
    held = unit.first_row;
    DecodeLines(a_, unit.first_row, unit.rows, RowScales() + unit.first_row, panel);
    return panel;
  }

  void RunUnit(std::int64_t slot, const Unit& unit) {
    const std::uint64_t base = static_cast<std::uint64_t>(slot) * workspace_.slot_bytes;
    const Real* panel = Panel(slot, unit);
    auto* tile = At<Real>(base + workspace_.panel_bytes);
    const Real* b = WideB() + unit.first_column * problem_.k;
    if constexpr (kSum == QuantizedSum::kIntegers) {
      auto* sums = At<double>(base + workspace_.panel_bytes + workspace_.tile_bytes);
      SumPieces(unit, panel, b, tile, sums);
      Store(unit, sums);
    } else {
      RowGemm(true, unit.rows, unit.columns, problem_.k, panel, problem_.k, b, problem_.k, tile,
              unit.columns);
      Store(unit, tile);
    }
  }

  void SumPieces(const Unit& unit, const float* panel, const float* b, float* tile,
                 double* sums) const {
    std::fill_n(sums, unit.rows * unit.columns, 0.0);
    std::vector<double> column_factors(static_cast<std::size_t>(unit.columns));
    for (std::int64_t begin = 0; begin < problem_.k;) {
      const std::int64_t end =
          std::min({begin + kExactPiece, a_.EndOfBlock(begin), b_.EndOfBlock(begin)});
      RowGemm(true, unit.rows, unit.columns, end - begin, panel + begin, problem_.k, b + begin,
              problem_.k, tile, unit.columns);
      for (std::int64_t j = 0; j < unit.columns; ++j) {
        const std::int64_t column = unit.first_column + j;
        column_factors[static_cast<std::size_t>(j)] =
            b_.BlockFactor(column, begin, ColumnScales()[column]);
      }
      for (std::int64_t i = 0; i < unit.rows; ++i) {
        const std::int64_t row = unit.first_row + i;
        const double factor = a_.BlockFactor(row, begin, RowScales()[row]);
        const float* from = tile + i * unit.columns;
        double* to = sums + i * unit.columns;
        for (std::int64_t j = 0; j < unit.columns; ++j) {
          to[j] += factor * column_factors[static_cast<std::size_t>(j)] * from[j];
        }
      }
      begin = end;
    }
  }

  template <typename T>
  void Store(const Unit& unit, const T* sums) const {
    StoreUnit<double>(
        problem_, arguments_, unit, sums, unit.columns,
        [this](std::int64_t row) { return RowScales()[row] * a_view_.tensor_scale; },
        [this](std::int64_t column) { return ColumnScales()[column] * b_view_.tensor_scale; });
  }

  const Problem& problem_;
  const Arguments& arguments_;
  ParallelExecutor* const executor_;
  const QuantizedWorkspace<kSum> workspace_;
  const QuantizedView a_view_;
  const QuantizedView b_view_;
  const LineDecoder a_;
  const LineDecoder b_;
  SlotPool slots_;
  static constexpr std::int64_t kNoRow = -1;
  std::vector<std::int64_t> held_;  // by slot, the first row of op(A) in its panel
};

}  // namespace gemmd
