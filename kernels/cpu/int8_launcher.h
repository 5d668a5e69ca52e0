// Computes D for cpu/vnni_int8: A is packed by the rows of a unit, B once, or, where at most 64
// rows meet it, by the columns of a unit, so that it need not be kept. Few rows meet columns where
// these lie, if they lie along K.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "kernels/cpu/int8_rows.h"
#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/store_unit.h"
#include "kernels/cpu/units.h"
#include "kernels/kernel.h"

namespace gemmd {

inline constexpr std::int64_t kInt8TimesF32 = 4;  // products that take as long as one of f32

// Where a launch keeps its intermediate values, as offsets into the workspace.
struct Int8Workspace {
  Int8Workspace(const Problem& problem, int workers)
      : units(problem.m, problem.n, problem.k / kInt8TimesF32, workers, Units::kMostRows,
              Units::kLeastDecodedRows),
        slots(std::min<std::int64_t>(workers, units.count())),
        strips(CeilOfRatio(problem.n, kInt8StripColumns)),
        unit_strips(CeilOfRatio(units.columns(), kInt8StripColumns)),
        packs_all(problem.m > kPanelRows),
        panel_bytes(RoundUp(static_cast<std::uint64_t>(units.rows() * Int8Depth(problem.k)), 64)),
        sum_bytes(RoundUp(
            static_cast<std::uint64_t>(units.rows() * unit_strips * kInt8StripColumns * 4), 64)),
        packed_b((panel_bytes + sum_bytes) * static_cast<std::uint64_t>(slots)),
        total_bytes(packed_b + static_cast<std::uint64_t>(
                                   std::max(packs_all ? strips : 0, slots * unit_strips) *
                                   Int8StripBytes(problem.k))) {}

  const Units units;
  const std::int64_t slots;  // units at work at a time, at most
  const std::int64_t strips;
  const std::int64_t unit_strips;   // of a unit, at most
  const bool packs_all;             // of B at once; else each slot has the strips of its unit
  const std::uint64_t panel_bytes;  // of a slot: its unit's rows of op(A)
  const std::uint64_t sum_bytes;
  const std::uint64_t packed_b;
  const std::uint64_t total_bytes;
};

// One product on the way: lives as long as its launch.
class Int8Launcher {
 public:
  // `workers`: as many as the workspace is for; the executor has no more.
  Int8Launcher(const Problem& problem, const Arguments& arguments, int workers,
               ParallelExecutor* executor)
      : problem_(problem),
        arguments_(arguments),
        executor_(executor),
        workspace_(problem, workers),
        slots_(workspace_.slots) {}

  void Run() {
    if (workspace_.packs_all) {
      // Few strips for each, so that all threads are busy, and enough to share cache lines.
      static constexpr std::int64_t kColumns = 4 * kInt8StripColumns;
      executor_->Run(CeilOfRatio(problem_.n, kColumns), [this](int, std::int64_t index) {
        const std::int64_t column = index * kColumns;
        Pack(column, std::min(kColumns, problem_.n - column), Strip(column / kInt8StripColumns));
      });
    }
    executor_->Run(workspace_.units.count(), [this](int, std::int64_t index) {
      const std::int64_t slot = slots_.Take();
      RunUnit(slot, workspace_.units[index]);
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

  void Pack(std::int64_t first_column, std::int64_t columns, std::int8_t* strips) const {
    PackInt8Strips(
        problem_.k, columns,
        static_cast<const std::int8_t*>(arguments_.b) + first_column * problem_.b_column_stride(),
        problem_.b_inner_stride(), problem_.b_column_stride(), strips);
  }

  // The strips of the unit's columns.
  const std::int8_t* Strips(std::int64_t slot, const Unit& unit) const {
    if (workspace_.packs_all) return Strip(unit.first_column / kInt8StripColumns);
    std::int8_t* const strips = Strip(slot * workspace_.unit_strips);
    Pack(unit.first_column, unit.columns, strips);
    return strips;
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
    const std::int64_t pitch = RoundUp(unit.columns, kInt8StripColumns);
    if (unit.rows <= kInt8FewRows && problem_.b_inner_stride() == 1) {
      const std::int64_t stride = problem_.b_column_stride();
      MultiplyInt8Columns(
          unit.rows, unit.columns, problem_.k, panel,
          static_cast<const std::int8_t*>(arguments_.b) + unit.first_column * stride, stride, sums,
          pitch);
    } else {
      MultiplyInt8Rows(unit.rows, unit.columns, problem_.k, panel, Strips(slot, unit), sums, pitch);
    }
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
