#include "server/device/rows.h"

#include "server/device/panel.h"

namespace gemmd {
namespace {

MatrixLayout TightRows(DataType type, std::int64_t rows, std::int64_t columns) {
  return {type, rows, columns, Order::kRowMajor, columns};
}

RowSpan RowsOf(const MatrixLayout& layout) {
  return {layout.outer(), ElementBytes(layout, layout.inner()),
          ElementBytes(layout, layout.leading_dimension)};
}

bool HasWholeByteLines(const MatrixLayout& layout) {
  const std::int64_t bits = SizeBits(layout.type);
  return layout.inner() * bits % 8 == 0 && layout.leading_dimension * bits % 8 == 0;
}

bool HasJoinableScales(const Scaling& scaling) {
  return !scaling.has_scales || (scaling.block_lines == 1 && scaling.order == ScaleOrder::kAlongK &&
                                 !scaling.has_tensor_scale);
}

}  // namespace

bool HasJoinableRows(const DeviceWork& work) {
  const Problem& problem = work.problem;
  return work.weights_id != 0 && problem.a_is_k_major() && problem.d.order == Order::kRowMajor &&
         problem.epilogue.beta == 0 && HasWholeByteLines(problem.a) &&
         HasJoinableScales(problem.a_scaling) && work.resident[WorkPlane::kA] == nullptr &&
         work.buffers.access[WorkPlane::kA] == Access::kHost &&
         work.buffers.d_access == Access::kHost;
}

Problem WithRows(const DeviceWork& work, std::int64_t rows) {
  Problem joined = work.problem;
  joined.m = rows;
  joined.transpose_a = false;
  joined.a = TightRows(joined.a.type, rows, joined.k);
  joined.d = TightRows(joined.d.type, rows, joined.n);
  joined.c = joined.d;
  return joined;
}

Problem JoinedRows(const std::vector<DeviceWork>& works) {
  std::int64_t rows = 0;
  for (const DeviceWork& work : works) rows += work.problem.m;
  return WithRows(works.front(), rows);
}

RowSpan RowsOfA(const Problem& problem) { return RowsOf(problem.a); }
RowSpan RowsOfD(const Problem& problem) { return RowsOf(problem.d); }

}  // namespace gemmd
