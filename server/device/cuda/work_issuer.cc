#include "server/device/cuda/work_issuer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gemmd {
namespace {

std::uint64_t Pitch(const MatrixLayout& layout) {
  return ElementBytes(layout, layout.leading_dimension);
}

// The layout that the copies of an operand fill.
MatrixLayout InputLayout(const MatrixLayout& sent, const MatrixLayout& landed) {
  return IsTransposed(sent, landed) ? ScratchLayout(sent) : landed;
}

// What was sent does not fill what lands: rows, columns or both are padded.
bool IsPadded(const MatrixLayout& sent, const MatrixLayout& landed) {
  return sent.rows != landed.rows || sent.columns != landed.columns;
}

bool CutsRows(const std::vector<Panel>& panels) {
  return panels.front().m_end != panels.back().m_end;
}
bool CutsColumns(const std::vector<Panel>& panels) {
  return panels.front().n_end != panels.back().n_end;
}

// Bias and scales, as planes of one line.
struct VectorInput {
  const void* host = nullptr;
  std::uint64_t bytes = 0;
  BlockLayout::Part part;
};

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

// Line by line, with zeros for what the sent plane does not fill.
void Pack(const MatrixLayout& sent, const void* from, const MatrixLayout& to_layout,
          const BlockLayout::Part& part, char* staging) {
  char* const to = staging + part.offset;
  const std::uint64_t width = ElementBytes(sent, sent.inner());
  std::memset(to, 0, part.bytes);
  for (std::int64_t line = 0; line < sent.outer(); ++line) {
    std::memcpy(to + static_cast<std::uint64_t>(line) * Pitch(to_layout),
                static_cast<const char*>(from) + static_cast<std::uint64_t>(line) * Pitch(sent),
                width);
  }
}

// How the device copies what the CPU may not.
CopyDirection DirectionFrom(Access access) {
  return access == Access::kDevice ? CopyDirection::kWithinDevice : CopyDirection::kToDevice;
}

// An operand of a small work: packed into the staging memory, where the CPU may touch it.
struct SmallInput {
  OperandSource from;
  const MatrixLayout* sent = nullptr;
  MatrixLayout to_layout;
  BlockLayout::Part part;
};

std::vector<SmallInput> SmallInputs(const PreparedWork& prepared) {
  const Problem& sent = prepared.work->problem;
  const Problem& landed = prepared.landed;
  const HostBuffers& buffers = prepared.work->buffers;
  const BlockLayout& layout = prepared.block;
  std::vector<SmallInput> inputs;
  if (buffers.a != nullptr) {
    inputs.push_back(
        {{buffers.a, buffers.a_access}, &sent.a, InputLayout(sent.a, landed.a), layout.a_input});
  }
  if (buffers.b != nullptr) {
    inputs.push_back(
        {{buffers.b, buffers.b_access}, &sent.b, InputLayout(sent.b, landed.b), layout.b_input});
  }
  if (layout.c.bytes != 0) {
    inputs.push_back({{buffers.c, buffers.c_access}, &sent.c, landed.c, layout.c});
  }
  return inputs;
}

// Queues the transposition of what the panel needs of an operand that lands in the other
// order: `begin` to `end` along op()'s outer dimension.
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

}  // namespace

PreparedWork Prepare(const DeviceWork& work, std::uint64_t panel_bytes) {
  return Prepare(work, panel_bytes, {work.resident_a != nullptr, work.resident_b != nullptr});
}

PreparedWork Prepare(const DeviceWork& work, std::uint64_t panel_bytes, const Residency& resident) {
  PreparedWork prepared;
  prepared.work = &work;
  prepared.landed = LandedProblem(work.problem);
  prepared.resident = resident;
  prepared.panels = CutIntoPanels(prepared.landed, prepared.resident, work.plan, panel_bytes);
  prepared.block = LayOutBlock(work.problem, prepared.landed, prepared.resident,
                               PanelWorkspaceBytes(prepared.landed, prepared.panels, work.plan));
  return prepared;
}

bool WorkIssuer::IsSmall(const PreparedWork& prepared, const CudaSlot& slot) {
  // Beyond this, copying on the caller's thread would cost more than handing over.
  constexpr std::uint64_t kMaxBytes = 256 << 10;
  return prepared.panels.size() == 1 && prepared.block.inputs_bytes <= slot.staging().size_bytes &&
         prepared.block.inputs_bytes + prepared.block.d.bytes <= kMaxBytes;
}

IssuedWork WorkIssuer::IssueSmall(const PreparedWork& prepared, CudaSlot* slot) const {
  const BlockLayout& layout = prepared.block;
  const CudaStream stream = slot->stream();
  CudaCommands commands(backend_, slot);
  IssuedWork issued;
  auto* const block = static_cast<char*>(commands.Allocate(layout.total_bytes, stream));
  if (block == nullptr) {
    issued.status = commands.TakeStatus();
    return issued;
  }

  char* const staging = slot->staging().data;
  const std::vector<SmallInput> small_inputs = SmallInputs(prepared);
  for (const SmallInput& input : small_inputs) {
    if (input.from.access == Access::kHost) {
      Pack(*input.sent, input.from.data, input.to_layout, input.part, staging);
    } else {
      std::memset(staging + input.part.offset, 0, input.part.bytes);  // its padding
    }
  }
  for (const VectorInput& vector : VectorInputs(prepared)) {
    std::memset(staging + vector.part.offset, 0, vector.part.bytes);
    std::memcpy(staging + vector.part.offset, vector.host, vector.bytes);
  }

  const Panel& whole = prepared.panels.front();
  const CudaEvent begin = commands.Mark(stream);
  const std::uint64_t inputs = layout.inputs_bytes;
  if (inputs != 0) {
    commands.Copy(CopyDirection::kToDevice, {block, inputs, staging, inputs, inputs, 1}, stream);
  }
  for (const SmallInput& input : small_inputs) {
    if (input.from.access == Access::kHost) continue;
    commands.Copy(DirectionFrom(input.from.access),
                  CopyOfRect(WholePlane(*input.sent), input.from.data, Pitch(*input.sent),
                             block + input.part.offset, Pitch(input.to_layout)),
                  stream);
  }
  const CudaEvent landed_mark = commands.Mark(stream);
  Compute(prepared, whole, true, block, stream, &commands);
  const CudaEvent computed = commands.Mark(stream);
  CopyOut(prepared, whole, block, stream, &commands);
  // Freed before the last mark, so that a work that ended holds nothing.
  commands.Free(block, stream);
  const CudaEvent end = commands.Mark(stream);
  issued.stages = {{Stage::kCopyIn, begin, landed_mark},
                   {Stage::kCompute, landed_mark, computed},
                   {Stage::kCopyOut, computed, end}};
  issued.last = end;
  issued.status = commands.TakeStatus();
  if (!issued.status.ok()) {
    commands.Free(block, stream);
    issued.last = commands.Mark(stream);
    issued.status.Update(commands.status());
  }
  return issued;
}

IssuedWork WorkIssuer::IssueLarge(const PreparedWork& prepared, CudaSlot* slot,
                                  StagingRing* ring) const {
  const Problem& sent = prepared.work->problem;
  const Problem& landed = prepared.landed;
  const BlockLayout& layout = prepared.block;
  const std::vector<Panel>& panels = prepared.panels;
  const Panel whole{0, landed.m, 0, landed.n};
  CudaCommands commands(backend_, slot);
  IssuedWork issued;
  auto* const block = static_cast<char*>(commands.Allocate(layout.total_bytes, streams_.copy_in));
  if (block == nullptr) {
    issued.status = commands.TakeStatus();
    return issued;
  }

  CudaEvent begin = commands.Mark(streams_.copy_in);
  const bool has_padding = IsPadded(sent.a, landed.a) || IsPadded(sent.b, landed.b);
  if (has_padding) commands.Zero(block, layout.inputs_bytes, streams_.copy_in);
  CopyInVectors(prepared, block, ring, &commands);
  const bool cuts_rows = CutsRows(panels);
  const bool cuts_columns = CutsColumns(panels);
  if (!cuts_rows) CopyInA(prepared, whole, block, ring, &commands);
  if (!cuts_columns) CopyInB(prepared, whole, block, ring, &commands);
  for (const Panel& panel : panels) {
    if (cuts_rows) CopyInA(prepared, panel, block, ring, &commands);
    if (cuts_columns) CopyInB(prepared, panel, block, ring, &commands);
    if (layout.c.bytes != 0) {
      CopyIn(sent.c, landed.c, {prepared.work->buffers.c, prepared.work->buffers.c_access},
             RectOfD(sent.c, panel), block + layout.c.offset, ring, &commands);
    }
    const CudaEvent landed_mark = commands.Mark(streams_.copy_in);
    issued.stages.push_back({Stage::kCopyIn, begin, landed_mark});
    begin = landed_mark;

    commands.Wait(streams_.compute, landed_mark);
    const CudaEvent compute_begin = commands.Mark(streams_.compute);
    Compute(prepared, panel, &panel == &panels.front(), block, streams_.compute, &commands);
    const CudaEvent computed = commands.Mark(streams_.compute);
    issued.stages.push_back({Stage::kCompute, compute_begin, computed});

    commands.Wait(streams_.copy_out, computed);
    const CudaEvent copy_out_begin = commands.Mark(streams_.copy_out);
    CopyOut(prepared, panel, block, streams_.copy_out, &commands);
    const CudaEvent copy_out_end = commands.Mark(streams_.copy_out);
    issued.stages.push_back({Stage::kCopyOut, copy_out_begin, copy_out_end});
  }

  issued.status = commands.TakeStatus();
  if (!issued.status.ok()) {
    // The work ends when all that was issued for it has: the block and the caller's memory
    // are in use until then.
    commands.Wait(streams_.compute, commands.Mark(streams_.copy_in));
    commands.Wait(streams_.copy_out, commands.Mark(streams_.compute));
  }
  commands.Free(block, streams_.copy_out);
  issued.last = commands.Mark(streams_.copy_out);
  issued.status.Update(commands.status());
  return issued;
}

void WorkIssuer::Land(const MatrixLayout& sent, const MatrixLayout& landed, const void* host,
                      char* scratch, char* to, StagingRing* ring, CudaCommands* commands) const {
  if (IsPadded(sent, landed)) commands->Zero(to, LandedBytes(landed), streams_.copy_in);
  CopyIn(sent, landed, {host, Access::kHost}, WholePlane(sent), scratch, ring, commands);
  if (IsTransposed(sent, landed)) {
    TransposeInput(sent, landed, 0, landed.outer(), scratch, to, streams_.copy_in, commands);
  }
}

void WorkIssuer::CopyIn(const MatrixLayout& sent, const MatrixLayout& landed,
                        const OperandSource& from, const PlaneRect& rect, void* to,
                        StagingRing* ring, CudaCommands* commands) const {
  if (rect.lines() == 0 || rect.width() == 0 || !commands->status().ok()) return;
  const std::uint64_t pitch = Pitch(InputLayout(sent, landed));
  if (from.access != Access::kHost || IsPinned(from.data, sent.size_bytes())) {
    commands->Copy(DirectionFrom(from.access), CopyOfRect(rect, from.data, Pitch(sent), to, pitch),
                   streams_.copy_in);
  } else {
    commands->Update(ring->Copy(rect, from.data, Pitch(sent), to, pitch, streams_.copy_in));
  }
}

void WorkIssuer::CopyInVectors(const PreparedWork& prepared, char* block, StagingRing* ring,
                               CudaCommands* commands) const {
  for (const VectorInput& vector : VectorInputs(prepared)) {
    if (!commands->status().ok()) return;
    commands->Update(ring->Copy({0, 1, 0, vector.bytes}, vector.host, vector.bytes,
                                block + vector.part.offset, vector.bytes, streams_.copy_in));
  }
}

void WorkIssuer::CopyInA(const PreparedWork& prepared, const Panel& panel, char* block,
                         StagingRing* ring, CudaCommands* commands) const {
  if (prepared.resident.a) return;
  const Problem& sent = prepared.work->problem;
  CopyIn(sent.a, prepared.landed.a, {prepared.work->buffers.a, prepared.work->buffers.a_access},
         RectOfA(sent, panel), block + prepared.block.a_input.offset, ring, commands);
}

void WorkIssuer::CopyInB(const PreparedWork& prepared, const Panel& panel, char* block,
                         StagingRing* ring, CudaCommands* commands) const {
  if (prepared.resident.b) return;
  const Problem& sent = prepared.work->problem;
  CopyIn(sent.b, prepared.landed.b, {prepared.work->buffers.b, prepared.work->buffers.b_access},
         RectOfB(sent, panel), block + prepared.block.b_input.offset, ring, commands);
}

void WorkIssuer::Compute(const PreparedWork& prepared, const Panel& panel, bool is_first,
                         char* block, CudaStream stream, CudaCommands* commands) const {
  const DeviceWork& work = *prepared.work;
  const Problem& sent = work.problem;
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

  const auto* const a = prepared.resident.a ? static_cast<const char*>(work.resident_a->data())
                                            : block + layout.a.offset;
  const auto* const b = prepared.resident.b ? static_cast<const char*>(work.resident_b->data())
                                            : block + layout.b.offset;
  const PanelOffsets offsets = OffsetsOf(landed, panel);
  Arguments arguments;
  arguments.a = a + offsets.a;
  arguments.b = b + offsets.b;
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
  commands->Launch(
      [kernel = work.plan.kernel, config = work.plan.config, problem = PanelProblem(landed, panel),
       arguments](const LaunchTarget& target) {
        return kernel->Launch(problem, config, arguments, target);
      },
      stream);
}

void WorkIssuer::CopyOut(const PreparedWork& prepared, const Panel& panel, const char* block,
                         CudaStream stream, CudaCommands* commands) const {
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

bool WorkIssuer::IsPinned(const void* data, std::uint64_t bytes) const {
  return std::any_of(pinned_.begin(), pinned_.end(),
                     [&](const PinnedPool* pool) { return pool->Contains(data, bytes); });
}

}  // namespace gemmd
