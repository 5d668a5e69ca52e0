#include "server/device/panel.h"

#include <algorithm>

namespace gemmd {
namespace {

// Lines of an operand that begin at a multiple of this begin a byte, a block of scales and a tile.
std::int64_t LineStep(DataType type, const Scaling& scaling) {
  const std::int64_t of_bytes = SizeBits(type) < 8 ? 8 : 1;
  const std::int64_t of_scales = scaling.order == ScaleOrder::kTiles128x4
                                     ? 128
                                     : std::max<std::int64_t>(1, scaling.block_lines);
  return std::max(of_bytes, of_scales);  // powers of two
}

// Places before the scale of that line's first block.
std::int64_t ScaleOffset(const Scaling& scaling, std::int64_t scale_lines, std::int64_t k,
                         std::int64_t line) {
  return scaling.has_scales ? scaling.index(scale_lines, k, line, 0) : 0;
}

}  // namespace

std::int64_t PanelRowStep(const Problem& problem) {
  return LineStep(problem.a.type, problem.a_scaling);
}

std::int64_t PanelColumnStep(const Problem& problem) {
  if (problem.b_packing != Packing::kNone) return kPackedLines;
  return LineStep(problem.b.type, problem.b_scaling);
}

Problem PanelProblem(const Problem& problem, const Panel& panel) {
  Problem part = problem;
  part.m = panel.m_end - panel.m_begin;
  part.n = panel.n_end - panel.n_begin;
  if (part.a_scale_lines == 0) part.a_scale_lines = problem.m;
  if (part.b_scale_lines == 0) part.b_scale_lines = problem.n;
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
  offsets[WorkPlane::kA] = ElementBytes(problem.a, panel.m_begin * problem.a_row_stride());
  offsets[WorkPlane::kB] = ElementBytes(problem.b, panel.n_begin * problem.b_column_stride());
  offsets[WorkPlane::kC] = ElementBytes(problem.c, panel.m_begin * problem.c.row_stride() +
                                                       panel.n_begin * problem.c.column_stride());
  offsets.d = ElementBytes(problem.d, panel.m_begin * problem.d.row_stride() +
                                          panel.n_begin * problem.d.column_stride());
  offsets[WorkPlane::kBias] = ElementBytes(problem.d, panel.n_begin);
  const auto lines = [](std::int64_t scale_lines, std::int64_t own) {
    return scale_lines == 0 ? own : scale_lines;
  };
  const std::int64_t a_scale = ScaleOffset(
      problem.a_scaling, lines(problem.a_scale_lines, problem.m), problem.k, panel.m_begin);
  const std::int64_t b_scale = ScaleOffset(
      problem.b_scaling, lines(problem.b_scale_lines, problem.n), problem.k, panel.n_begin);
  const auto bytes = [](const Scaling& scaling, std::int64_t index) {
    return static_cast<std::uint64_t>(index * SizeBits(scaling.type) / 8);
  };
  offsets[WorkPlane::kAScales] = bytes(problem.a_scaling, a_scale);
  offsets[WorkPlane::kBScales] = bytes(problem.b_scaling, b_scale);
  if (problem.a_scaling.has_zero_points) {
    offsets[WorkPlane::kAZeroPoints] = static_cast<std::uint64_t>(a_scale);
  }
  if (problem.b_scaling.has_zero_points) {
    offsets[WorkPlane::kBZeroPoints] = static_cast<std::uint64_t>(b_scale);
  }
  if (problem.a_scaling.has_offsets) offsets[WorkPlane::kAOffsets] = offsets[WorkPlane::kAScales];
  if (problem.b_scaling.has_offsets) offsets[WorkPlane::kBOffsets] = offsets[WorkPlane::kBScales];
  for (const WorkPlane plane : kPlanesOfB) {
    const std::optional<WeightPlane> packed = PackedPlaneOf(problem, plane);
    if (packed.has_value()) offsets[plane] = PackedOffset(problem, *packed, panel.n_begin);
  }
  return offsets;
}

}  // namespace gemmd
