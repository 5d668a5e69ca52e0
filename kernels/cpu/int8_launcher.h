// Computes D for cpu/vnni_int8: A is packed by units of 64 rows, B once, or, where there is one
// such unit of rows, a strip at a time, which then stays in the cache until it is multiplied.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/int8_rows.h"
#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/store_unit.h"
#include "kernels/cpu/units.h"
#include "kernels/kernel.h"

namespace gemmd {

// Where a launch keeps its intermediate values, as offsets into the workspace.
struct Int8Workspace {
  Int8Workspace(const Problem& problem, int workers)
      : units(UnitsIn(problem.m, kPanelRows) * UnitsIn(problem.n, kPanelColumns)),
        slots(std::min<std::int64_t>(workers, units)),
        strips(UnitsIn(problem.n, kInt8StripColumns)),
        packs_all(problem.m > kPanelRows),
        rows(std::min(kPanelRows, problem.m)),
        columns(std::min(kPanelColumns, strips * kInt8StripColumns)),
        panel_bytes(RoundUpTo64(static_cast<std::uint64_t>(rows * Int8Depth(problem.k)))),
        sum_bytes(RoundUpTo64(static_cast<std::uint64_t>(rows * columns * 4))),
        packed_b((panel_bytes + sum_bytes) * static_cast<std::uint64_t>(slots)),
        total_bytes(packed_b + static_cast<std::uint64_t>((packs_all ? strips : slots) *
                                                          Int8StripBytes(problem.k))) {}

  const std::int64_t units;
  const std::int64_t slots;  // units at work at a time, at most
  const std::int64_t strips;
  const bool packs_all;             // of B at once; else each slot has a strip
  const std::int64_t rows;          // of a unit, at most
  const std::int64_t columns;       // of a unit, whole strips
  const std::uint64_t panel_bytes;  // of a slot: its unit's rows of op(A)
  const std::uint64_t sum_bytes;
  const std::uint64_t packed_b;
  const std::uint64_t total_bytes;
};

// One product on the way: lives as long as its launch.
class Int8Launcher {
 public:
  Int8Launcher(const Problem& problem, const Arguments& arguments, ParallelExecutor* executor)
      : problem_(problem),
        arguments_(arguments),
        executor_(executor),
        workspace_(problem, executor->workers()),
        slots_(workspace_.slots) {}

  void Run() {
    if (workspace_.packs_all) {
      executor_->Run(workspace_.strips, [this](int, std::int64_t strip) {
        PackStrip(strip * kInt8StripColumns, Strip(strip));
      });
    }
    const std::int64_t panels = UnitsIn(problem_.m, kPanelRows);
    // Neighbouring indices share the columns of B, which stay in a core's cache.
    executor_->Run(workspace_.units, [this, panels](int, std::int64_t index) {
      const std::int64_t row = index % panels * kPanelRows;
      const std::int64_t column = index / panels * kPanelColumns;
      const std::int64_t slot = slots_.Take();
      RunUnit(slot, {row, std::min(kPanelRows, problem_.m - row), column,
                     std::min(kPanelColumns, problem_.n - column)});
      slots_.Give(slot);
    });
  }

 private:
  char* Memory(std::uint64_t offset) const {
    return static_cast<char*>(arguments_.workspace) + offset;
  }
  std::int8_t* Strip(std::int64_t strip) const {
    return reinterpret_cast<std::int8_t*>(Memory(workspace_.packed_b)) +
           strip * Int8StripBytes(problem_.k);
  }

  void PackStrip(std::int64_t first_column, std::int8_t* strip) const {
    PackInt8Strip(
        problem_.k, std::min(kInt8StripColumns, problem_.n - first_column),
        static_cast<const std::int8_t*>(arguments_.b) + first_column * problem_.b_column_stride(),
        problem_.b_inner_stride(), problem_.b_column_stride(), strip);
  }

  void Multiply(std::int64_t slot, const Unit& unit, const std::uint8_t* panel, std::int32_t* sums,
                std::int64_t pitch) const {
    if (workspace_.packs_all) {
      MultiplyInt8Rows(unit.rows, unit.columns, problem_.k, panel,
                       Strip(unit.first_column / kInt8StripColumns), sums, pitch);
      return;
    }
    for (std::int64_t j = 0; j < unit.columns; j += kInt8StripColumns) {
      PackStrip(unit.first_column + j, Strip(slot));
      MultiplyInt8Rows(unit.rows, std::min(kInt8StripColumns, unit.columns - j), problem_.k, panel,
                       Strip(slot), sums + j, pitch);
    }
  }

  void RunUnit(std::int64_t slot, const Unit& unit) const {
    const std::uint64_t base =
        static_cast<std::uint64_t>(slot) * (workspace_.panel_bytes + workspace_.sum_bytes);
    auto* panel = reinterpret_cast<std::uint8_t*>(Memory(base));
    auto* sums = reinterpret_cast<std::int32_t*>(Memory(base + workspace_.panel_bytes));
    for (std::int64_t row = 0; row < unit.rows; ++row) {
      PackInt8Line(problem_.k,
                   static_cast<const std::int8_t*>(arguments_.a) +
                       (unit.first_row + row) * problem_.a_row_stride(),
                   problem_.a_inner_stride(), panel + row * Int8Depth(problem_.k));
    }
    const std::int64_t pitch = UnitsIn(unit.columns, kInt8StripColumns) * kInt8StripColumns;
    Multiply(slot, unit, panel, sums, pitch);
    if (problem_.d.type == DataType::kInt32 && problem_.d.order == Order::kRowMajor) {
      CopyOut(unit, sums, pitch);
      return;
    }
    const auto scale = [](const Scaling& scaling, const void* scales,
                          std::int64_t index) -> double {
      if (!scaling.has_scales) return 1;
      return static_cast<const float*>(scales)[scaling == Scaling::kVector ? index : 0];
    };
    StoreUnit<double>(
        problem_, arguments_, unit, sums, pitch,
        [&](std::int64_t row) { return scale(problem_.a_scaling, arguments_.a_scales, row); },
        [&](std::int64_t column) {
          return scale(problem_.b_scaling, arguments_.b_scales, column);
        });
  }

  // The exact product as it stands: Rejection() lets int32 have no epilogue.
  void CopyOut(const Unit& unit, const std::int32_t* sums, std::int64_t pitch) const {
    auto* d = static_cast<std::int32_t*>(arguments_.d) +
              unit.first_row * problem_.d.leading_dimension + unit.first_column;
    for (std::int64_t row = 0; row < unit.rows; ++row) {
      std::copy_n(sums + row * pitch, unit.columns, d + row * problem_.d.leading_dimension);
    }
  }

  const Problem& problem_;
  const Arguments& arguments_;
  ParallelExecutor* const executor_;
  const Int8Workspace workspace_;
  SlotPool slots_;
};

}  // namespace gemmd
