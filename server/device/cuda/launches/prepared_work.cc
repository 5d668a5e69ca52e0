#include "server/device/cuda/launches/prepared_work.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "server/device/cuda/planes/plane.h"
#include "server/device/cuda/planes/resident.h"
#include "server/device/cuda/planes/staging.h"

namespace gemmd {

bool CutsRows(const std::vector<Panel>& panels) {
  return panels.front().m_end != panels.back().m_end;
}

bool CutsColumns(const std::vector<Panel>& panels) {
  return panels.front().n_end != panels.back().n_end;
}

namespace {

// A D with more rows or columns than stay is computed elsewhere, and copied.
Residency InPlace(const Problem& sent, const Problem& landed, Residency resident) {
  resident.d = resident.d && !IsPadded(sent.d, landed.d);
  return resident;
}

}  // namespace

void Append(IssuedWork next, IssuedWork* issued) {
  issued->status.Update(std::move(next.status));
  if (next.last != nullptr) issued->last = next.last;
  issued->stages.insert(issued->stages.end(), next.stages.begin(), next.stages.end());
  issued->copied.in += next.copied.in;
  issued->copied.out += next.copied.out;
  issued->drains |= next.drains;
}

std::vector<VectorInput> VectorInputs(const PreparedWork& prepared) {
  const Problem& sent = prepared.work->problem;
  const HostBuffers& buffers = prepared.work->buffers;
  std::vector<VectorInput> vectors;
  for (const WorkPlane plane : kVectorPlanes) {
    if (!HasPlane(sent, plane) || prepared.resident[plane]) continue;
    vectors.push_back({buffers[plane], PlaneBytes(sent, plane), prepared.block.inputs[plane]});
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
  return Prepare(work, panel_bytes, work.resident.which());
}

PreparedWork Prepare(const DeviceWork& work, std::uint64_t panel_bytes, const Residency& resident) {
  const Problem landed = LandedProblem(work.problem);
  return PrepareInPanels(
      work, resident,
      CutIntoPanels(landed, InPlace(work.problem, landed, resident), work.plan, panel_bytes));
}

PreparedWork PrepareInPanels(const DeviceWork& work, const Residency& resident,
                             std::vector<Panel> panels) {
  PreparedWork prepared;
  prepared.work = &work;
  prepared.landed = LandedProblem(work.problem);
  prepared.resident = InPlace(work.problem, prepared.landed, resident);
  prepared.is_settled = prepared.resident;
  prepared.panels = std::move(panels);
  prepared.buffer_d = work.problem.d;
  prepared.block = LayOutBlock(work.problem, prepared.landed, prepared.resident,
                               PanelWorkspaceBytes(prepared.landed, prepared.panels, work.plan));
  return prepared;
}

void TransposePanel(const PreparedWork& prepared, const Panel& panel, bool is_first, char* block,
                    CudaStream stream, CudaCommands* commands) {
  const Problem& sent = prepared.work->problem;
  const Problem& landed = prepared.landed;
  const AllocationLayout& layout = prepared.block;
  // Operands that came whole are transposed once.
  const bool a_is_due = is_first || CutsRows(prepared.panels);
  const bool b_is_due = is_first || CutsColumns(prepared.panels);
  const auto transpose = [&](WorkPlane plane, std::int64_t begin, std::int64_t end) {
    const MatrixLayout from = PlaneOf(sent, plane);
    const MatrixLayout to = PlaneOf(landed, plane);
    if (prepared.resident[plane] || !IsTransposed(from, to)) return;
    TransposeInput(from, to, begin, end, layout.inputs[plane].In(block),
                   layout.landed[plane].In(block), stream, commands);
  };
  if (a_is_due) transpose(WorkPlane::kA, panel.m_begin, panel.m_end);
  if (b_is_due) transpose(WorkPlane::kB, panel.n_begin, panel.n_end);
}

Arguments PanelArguments(const PreparedWork& prepared, const Panel& panel, char* block) {
  const ResidentPlanes& resident = prepared.work->resident;
  const Problem& problem = prepared.landed;
  const AllocationLayout& layout = prepared.block;
  const PanelOffsets offsets = OffsetsOf(problem, panel);
  Planes<const void*> planes;
  for (const WorkPlane plane : kWorkPlanes) {
    if (!HasPlane(problem, plane)) continue;
    const char* const begin = resident[plane] != nullptr
                                  ? static_cast<const char*>(resident[plane]->data())
                                  : layout.landed[plane].In(block);
    planes[plane] = begin + offsets[plane];
  }
  Arguments arguments = ArgumentsOf(planes);
  // Store() returns when it is there, and a result that stays is named when it is whole.
  arguments.a_is_settled = prepared.is_settled[WorkPlane::kA];
  arguments.b_is_settled = prepared.is_settled[WorkPlane::kB];
  char* const d =
      prepared.resident.d ? static_cast<char*>(resident.d->memory()) : layout.d.In(block);
  arguments.d = d + offsets.d;
  arguments.workspace = layout.workspace.In(block);
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
                           problem.b_packing, problem.accumulate, problem.determinism, e.alpha,
                           e.beta, e.has_bias, e.activation, layout(problem.a), layout(problem.b),
                           layout(problem.d));
  };
  const bool has_c = x.landed.epilogue.beta != 0;
  return x.work->plan.kernel == y.work->plan.kernel && x.work->plan.config == y.work->plan.config &&
         shape(x.landed) == shape(y.landed) && (!has_c || layout(x.landed.c) == layout(y.landed.c));
}

void AwaitKept(const DeviceWork& work, std::initializer_list<CudaStream> streams,
               CudaCommands* commands) {
  if (work.resident.d == nullptr) return;
  const CudaEvent ready = KeptOf(work).ready();
  if (ready == nullptr) return;
  for (const CudaStream stream : streams) commands->Wait(stream, ready);
}

std::vector<CudaRect> CopiesOut(const PreparedWork& prepared, const Panel& panel,
                                const char* block) {
  const DeviceWork& work = *prepared.work;
  const MatrixLayout& d = work.problem.d;
  const std::uint64_t pitch = Pitch(prepared.landed.d);
  const PlaneRect in_buffer = RectOfD(
      prepared.buffer_d,
      {prepared.d_row + panel.m_begin, prepared.d_row + std::min(panel.m_end, d.rows),
       prepared.d_column + panel.n_begin, prepared.d_column + std::min(panel.n_end, d.columns)});
  return CopiesToPieces(prepared.buffer_d, work.buffers.d, in_buffer,
                        prepared.block.d.In(block) + StartOf(RectOfD(d, panel), pitch), pitch);
}

void CopyPanelOut(const PreparedWork& prepared, const Panel& panel, const char* block,
                  CudaStream stream, CudaCommands* commands) {
  if (prepared.resident.d) return;
  const DeviceWork& work = *prepared.work;
  if (work.resident.d != nullptr) {
    const CudaResident& kept = KeptOf(work);
    commands->Copy(
        CopyDirection::kWithinDevice,
        CopyOfRect(RectOfD(work.problem.d, panel), prepared.block.d.In(block),
                   Pitch(prepared.landed.d), work.resident.d->memory(), Pitch(kept.layout())),
        stream);
    return;
  }
  const CopyDirection direction = work.buffers.d_access == Access::kDevice
                                      ? CopyDirection::kWithinDevice
                                      : CopyDirection::kFromDevice;
  for (const CudaRect& copy : CopiesOut(prepared, panel, block)) {
    commands->Copy(direction, copy, stream);
  }
}

}  // namespace gemmd
