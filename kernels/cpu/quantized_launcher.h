// Multiplies quantized operands for a CPU kernel, unit by unit of D as panel_launcher.h does it: A
// is decoded by the rows of a unit, B as it is multiplied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/math.h"
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
      : units(problem.m, problem.n, problem.k, workers, kMostRows, Units::kLeastDecodedRows),
        slots(std::min<std::int64_t>(workers, units.count())),
        panel_bytes(RoundUp(Bytes(units.rows() * problem.k, sizeof(Real)), 64)),
        tile_bytes(RoundUp(Bytes(units.rows() * units.columns(), sizeof(Real)), 64)),
        sum_bytes(kSum == QuantizedSum::kIntegers
                      ? RoundUp(Bytes(units.rows() * units.columns(), sizeof(double)), 64)
                      : 0),
        row_scale_bytes(RoundUp(Bytes(units.rows(), sizeof(double)), 64)),
        column_scale_bytes(RoundUp(Bytes(units.columns(), sizeof(double)), 64)),
        slot_bytes(panel_bytes + tile_bytes + sum_bytes + row_scale_bytes + column_scale_bytes),
        total_bytes(slot_bytes * static_cast<std::uint64_t>(slots)) {}

  static std::uint64_t Bytes(std::int64_t count, std::size_t size) {
    return static_cast<std::uint64_t>(count) * size;
  }

  // A unit's sums of pieces stay in the second cache.
  static constexpr std::int64_t kMostRows =
      kSum == QuantizedSum::kIntegers ? kPanelRows : Units::kMostRows;

  const Units units;
  const std::int64_t slots;                // units at work at a time, at most
  const std::uint64_t panel_bytes;         // of a slot: its unit's rows of op(A), decoded
  const std::uint64_t tile_bytes;          // one product
  const std::uint64_t sum_bytes;           // the f64 sum of them
  const std::uint64_t row_scale_bytes;     // line scales of A, of the unit's rows
  const std::uint64_t column_scale_bytes;  // and of B, of its columns
  const std::uint64_t slot_bytes;
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
    executor_->Run(workspace_.units.count(), [this](int, std::int64_t index) {
      const std::int64_t slot = slots_.Take();
      RunUnit(slot, workspace_.units[index]);
      slots_.Give(slot);
    });
  }

 private:
  // The memory that a slot has for its unit.
  struct Room {
    Real* panel;
    Real* tile;
    double* sums;  // of pieces
    double* row_scales;
    double* column_scales;
  };
  Room RoomOf(std::int64_t slot) const {
    char* at = static_cast<char*>(arguments_.workspace) +
               static_cast<std::uint64_t>(slot) * workspace_.slot_bytes;
    Room room{};
    room.panel = reinterpret_cast<Real*>(at);
    room.tile = reinterpret_cast<Real*>(at += workspace_.panel_bytes);
    room.sums = reinterpret_cast<double*>(at += workspace_.tile_bytes);
    room.row_scales = reinterpret_cast<double*>(at += workspace_.sum_bytes);
    room.column_scales = reinterpret_cast<double*>(at + workspace_.row_scale_bytes);
    return room;
  }

  static void FindScales(const LineDecoder& decoder, std::int64_t first, std::int64_t lines,
                         double* scales) {
    for (std::int64_t i = 0; i < lines; ++i) scales[i] = decoder.LineScale(first + i);
  }

  // Elements less their zero points alone, where sums are of integers.
  static const double* ScalesOfElements(const double* line_scales) {
    return kSum == QuantizedSum::kIntegers ? nullptr : line_scales;
  }

  // A slot keeps its rows of op(A) until it gets a unit of others.
  void FillPanel(std::int64_t slot, const Unit& unit, const Room& room) {
    std::int64_t& held = held_[static_cast<std::size_t>(slot)];
    if (held == unit.first_row) return;
    held = unit.first_row;
    FindScales(a_, unit.first_row, unit.rows, room.row_scales);
    a_.Lines(unit.first_row, unit.rows, ScalesOfElements(room.row_scales), room.panel);
  }

  void RunUnit(std::int64_t slot, const Unit& unit) {
    const Room room = RoomOf(slot);
    FillPanel(slot, unit, room);
    FindScales(b_, unit.first_column, unit.columns, room.column_scales);
    if constexpr (kSum == QuantizedSum::kIntegers) {
      SumPieces(unit, room);
      Store(unit, room, room.sums);
    } else {
      MultiplyPiece(unit, room, 0, problem_.k);
      Store(unit, room, room.tile);
    }
  }

  // tile = the product over a piece of K.
  void MultiplyPiece(const Unit& unit, const Room& room, std::int64_t k, std::int64_t depth) const {
    const DecodedColumns<Real> b(b_, unit.first_column, k, ScalesOfElements(room.column_scales));
    RowGemm(b.columns(), unit.rows, unit.columns, depth, room.panel + k, problem_.k, room.tile,
            unit.columns);
  }

  void SumPieces(const Unit& unit, const Room& room) const {
    std::fill_n(room.sums, unit.rows * unit.columns, 0.0);
    std::vector<double> column_factors(static_cast<std::size_t>(unit.columns));
    for (std::int64_t begin = 0; begin < problem_.k;) {
      const std::int64_t end =
          std::min({begin + kExactPiece, a_.EndOfBlock(begin), b_.EndOfBlock(begin)});
      MultiplyPiece(unit, room, begin, end - begin);
      for (std::int64_t j = 0; j < unit.columns; ++j) {
        column_factors[static_cast<std::size_t>(j)] =
            b_.BlockFactor(unit.first_column + j, begin, room.column_scales[j]);
      }
      for (std::int64_t i = 0; i < unit.rows; ++i) {
        const double factor = a_.BlockFactor(unit.first_row + i, begin, room.row_scales[i]);
        const float* from = room.tile + i * unit.columns;
        double* to = room.sums + i * unit.columns;
        for (std::int64_t j = 0; j < unit.columns; ++j) {
          to[j] += factor * column_factors[static_cast<std::size_t>(j)] * from[j];
        }
      }
      begin = end;
    }
  }

  template <typename T>
  void Store(const Unit& unit, const Room& room, const T* sums) const {
    StoreUnit<double>(
        problem_, arguments_, unit, sums, unit.columns,
        [&](std::int64_t row) {
          return room.row_scales[row - unit.first_row] * a_view_.tensor_scale;
        },
        [&](std::int64_t column) {
          return room.column_scales[column - unit.first_column] * b_view_.tensor_scale;
        });
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
