#include "server/device/panel.h"

namespace gemmd {

Problem PanelProblem(const Problem& problem, const Panel& panel) {
  Problem part = problem;
  part.m = panel.m_end - panel.m_begin;
  part.n = panel.n_end - panel.n_begin;
  (problem.transpose_a ? part.a.columns : part.a.rows) = part.m;
  (problem.transpose_b ? part.b.rows : part.b.columns) = part.n;
  for (MatrixLayout* layout : {&part.c, &part.d}) {
    layout->rows = part.m;
    layout->columns = part.n;
  }
  return part;
}

PanelOffsets OffsetsOf(const Problem& problem, const Panel& panel) {
  PanelOffsets offsets;
  offsets.a = ElementBytes(problem.a, panel.m_begin * problem.a_row_stride());
  offsets.b = ElementBytes(problem.b, panel.n_begin * problem.b_column_stride());
  offsets.c = ElementBytes(problem.c, panel.m_begin * problem.c.row_stride() +
                                          panel.n_begin * problem.c.column_stride());
  offsets.d = ElementBytes(problem.d, panel.m_begin * problem.d.row_stride() +
                                          panel.n_begin * problem.d.column_stride());
  offsets.bias = ElementBytes(problem.d, panel.n_begin);
  const auto scales = [](Scaling scaling, std::int64_t index) {
    return scaling == Scaling::kVector ? sizeof(float) * static_cast<std::uint64_t>(index) : 0;
  };
  offsets.a_scales = scales(problem.a_scaling, panel.m_begin);
  offsets.b_scales = scales(problem.b_scaling, panel.n_begin);
  return offsets;
}

}  // namespace gemmd
