#include "server/device/cuda/prepared_work.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "server/device/cuda/plane.h"

namespace gemmd {

bool CutsRows(const std::vector<Panel>& panels) {
  return panels.front().m_end != panels.back().m_end;
}

bool CutsColumns(const std::vector<Panel>& panels) {
  return panels.front().n_end != panels.back().n_end;
}

std::vector<VectorInput> VectorInputs(const PreparedWork& prepared) {
  const Problem& sent = prepared.work->problem;
  const HostBuffers& buffers = prepared.work->buffers;
  const auto scale_bytes = [](Scaling scaling, std::int64_t count) {
    return sizeof(float) * static_cast<std::uint64_t>(scaling == Scaling::kVector ? count : 1);
  };
  std::vector<VectorInput> vectors;
  if (sent.epilogue.has_bias) {
    vectors.push_back({buffers.bias, ElementBytes(sent.d, sent.n), prepared.block.bias});
  }
  if (sent.a_scaling != Scaling::kNone) {
    vectors.push_back(
        {buffers.a_scales, scale_bytes(sent.a_scaling, sent.m), prepared.block.a_scales});
  }
  if (sent.b_scaling != Scaling::kNone) {
    vectors.push_back(
        {buffers.b_scales, scale_bytes(sent.b_scaling, sent.n), prepared.block.b_scales});
  }
  return vectors;
}

void TransposeInput(const MatrixLayout& sent, const MatrixLayout& landed, std::int64_t begin,
                    std::int64_t end, const char* scratch, char* to, CudaStream stream,
                    CudaCommands* commands) {
  const MatrixLayout from = ScratchLayout(sent);
  Transposition t;
  t.element_bytes = SizeBits(sent.type) / 8;
  t.rows = sent.outer();
  t.columns = std::min(end, sent.inner()) - begin;
  t.from = scratch + ElementBytes(from, begin);
  t.from_leading_dimension = from.leading_dimension;
  t.to = to + ElementBytes(landed, begin * landed.leading_dimension);
  t.to_leading_dimension = landed.leading_dimension;
  t.padded_rows = end - begin;
  t.padded_columns = landed.inner();
  commands->Launch([t](const LaunchTarget& target) { return LaunchTranspose(t, target); }, stream);
}

PreparedWork Prepare(const DeviceWork& work, std::uint64_t panel_bytes) {
  return Prepare(work, panel_bytes, {work.resident_a != nullptr, work.resident_b != nullptr});
}

PreparedWork Prepare(const DeviceWork& work, std::uint64_t panel_bytes, const Residency& resident) {
  return PrepareInPanels(
      work, resident, CutIntoPanels(LandedProblem(work.problem), resident, work.plan, panel_bytes));
}

PreparedWork PrepareInPanels(const DeviceWork& work, const Residency& resident,
                             std::vector<Panel> panels) {
  PreparedWork prepared;
  prepared.work = &work;
  prepared.landed = LandedProblem(work.problem);
  prepared.resident = resident;
  prepared.panels = std::move(panels);
  prepared.block = LayOutBlock(work.problem, prepared.landed, prepared.resident,
                               PanelWorkspaceBytes(prepared.landed, prepared.panels, work.plan));
  return prepared;
}

void TransposePanel(const PreparedWork& prepared, const Panel& panel, bool is_first, char* block,
                    CudaStream stream, CudaCommands* commands) {
  const Problem& sent = prepared.work->problem;
  const Problem& landed = prepared.landed;
  const BlockLayout& layout = prepared.block;
  // What came whole is transposed once.
  const bool a_is_due = is_first || CutsRows(prepared.panels);
  const bool b_is_due = is_first || CutsColumns(prepared.panels);
  if (a_is_due && !prepared.resident.a && IsTransposed(sent.a, landed.a)) {
    TransposeInput(sent.a, landed.a, panel.m_begin, panel.m_end, block + layout.a_input.offset,
                   block + layout.a.offset, stream, commands);
  }
  if (b_is_due && !prepared.resident.b && IsTransposed(sent.b, landed.b)) {
    TransposeInput(sent.b, landed.b, panel.n_begin, panel.n_end, block + layout.b_input.offset,
                   block + layout.b.offset, stream, commands);
  }
}

Arguments PanelArguments(const PreparedWork& prepared, const Panel& panel, char* block) {
  const DeviceWork& work = *prepared.work;
  const BlockLayout& layout = prepared.block;
  const auto* const a = prepared.resident.a ? static_cast<const char*>(work.resident_a->data())
                                            : block + layout.a.offset;
  const auto* const b = prepared.resident.b ? static_cast<const char*>(work.resident_b->data())
                                            : block + layout.b.offset;
  const PanelOffsets offsets = OffsetsOf(prepared.landed, panel);
  Arguments arguments;
  arguments.a = a + offsets.a;
  arguments.b = b + offsets.b;
  arguments.a_is_settled = prepared.resident.a;  // Store() returns when it is there
  arguments.b_is_settled = prepared.resident.b;
  if (layout.c.bytes != 0) arguments.c = block + layout.c.offset + offsets.c;
  if (layout.bias.bytes != 0) arguments.bias = block + layout.bias.offset + offsets.bias;
  arguments.d = block + layout.d.offset + offsets.d;
  arguments.workspace = block + layout.workspace.offset;
  if (layout.a_scales.bytes != 0) {
    arguments.a_scales =
        reinterpret_cast<const float*>(block + layout.a_scales.offset + offsets.a_scales);
  }
  if (layout.b_scales.bytes != 0) {
    arguments.b_scales =
        reinterpret_cast<const float*>(block + layout.b_scales.offset + offsets.b_scales);
  }
  return arguments;
}

void ComputePanel(const PreparedWork& prepared, const Panel& panel, bool is_first, char* block,
                  CudaStream stream, CudaCommands* commands) {
  TransposePanel(prepared, panel, is_first, block, stream, commands);
  const Plan& plan = prepared.work->plan;
  commands->Launch(
      [kernel = plan.kernel, config = plan.config, problem = PanelProblem(prepared.landed, panel),
       arguments = PanelArguments(prepared, panel, block)](const LaunchTarget& target) {
        return kernel->Launch(problem, config, arguments, target);
      },
      stream);
}

bool HaveEqualLaunches(const PreparedWork& x, const PreparedWork& y) {
  const auto layout = [](const MatrixLayout& plane) {
    return std::make_tuple(plane.type, plane.rows, plane.columns, plane.order,
                           plane.leading_dimension);
  };
  const auto shape = [&layout](const Problem& problem) {
    const Epilogue& e = problem.epilogue;
    return std::make_tuple(problem.m, problem.n, problem.k, problem.transpose_a,
                           problem.transpose_b, problem.a_scaling, problem.b_scaling,
                           problem.accumulate, problem.determinism, e.alpha, e.beta, e.has_bias,
                           e.activation, layout(problem.a), layout(problem.b), layout(problem.d));
  };
  const bool has_c = x.landed.epilogue.beta != 0;
  return x.work->plan.kernel == y.work->plan.kernel && x.work->plan.config == y.work->plan.config &&
         shape(x.landed) == shape(y.landed) && (!has_c || layout(x.landed.c) == layout(y.landed.c));
}

void CopyPanelOut(const PreparedWork& prepared, const Panel& panel, const char* block,
                  CudaStream stream, CudaCommands* commands) {
  const MatrixLayout& d = prepared.work->problem.d;
  const HostBuffer& pieces = prepared.work->buffers.d;
  const CopyDirection direction = prepared.work->buffers.d_access == Access::kDevice
                                      ? CopyDirection::kWithinDevice
                                      : CopyDirection::kFromDevice;
  for (const CudaRect& copy :
       CopiesToPieces(d, pieces, RectOfD(d, panel), block + prepared.block.d.offset,
                      Pitch(prepared.landed.d))) {
    commands->Copy(direction, copy, stream);
  }
}

}  // namespace gemmd
