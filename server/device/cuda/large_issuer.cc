#include "server/device/cuda/large_issuer.h"

#include <algorithm>

namespace gemmd {

IssuedWork LargeIssuer::Issue(const PreparedWork& prepared, CudaSlot* slot,
                              StagingRing* ring) const {
  char* block = nullptr;
  return IssuePanels(prepared, 0, prepared.panels.size(), &block, slot, ring);
}

IssuedWork LargeIssuer::IssuePanels(const PreparedWork& prepared, std::size_t first,
                                    std::size_t end, char** block, CudaSlot* slot,
                                    StagingRing* ring) const {
  const bool is_first = first == 0;
  const bool is_last = end == prepared.panels.size();
  CudaCommands commands(backend_, slot);
  IssuedWork issued;
  if (is_first && prepared.block.total_bytes != 0) {
    *block = static_cast<char*>(commands.Allocate(prepared.block.total_bytes, streams_.copy_in));
    if (*block == nullptr) {
      issued.status = commands.TakeStatus();
      return issued;
    }
  }
  if (is_first) AwaitKept(*prepared.work, {streams_.compute, streams_.copy_out}, &commands);
  CudaEvent begin = commands.Mark(streams_.copy_in);
  if (is_first) CopyInWhole(prepared, *block, ring, &commands);
  for (std::size_t i = first; i < end; ++i) {
    begin = IssuePanel(prepared, i, begin, *block, ring, &commands, &issued.stages);
  }

  issued.status = commands.TakeStatus();
  if (!issued.status.ok()) {
    // The launch ends when all that was issued for it has: the block and the caller's memory
    // are in use until then.
    commands.Wait(streams_.compute, commands.Mark(streams_.copy_in));
    commands.Wait(streams_.copy_out, commands.Mark(streams_.compute));
  }
  if (*block != nullptr && (is_last || !issued.status.ok())) {
    commands.Free(*block, streams_.copy_out);
    *block = nullptr;
  }
  issued.last = commands.Mark(streams_.copy_out);
  issued.copied = commands.copied();
  issued.status.Update(commands.status());
  return issued;
}

// Copies the operands that arrive before the first panel: vectors, and operands that are not cut.
void LargeIssuer::CopyInWhole(const PreparedWork& prepared, char* block, StagingRing* ring,
                              CudaCommands* commands) const {
  const Problem& sent = prepared.work->problem;
  const Problem& landed = prepared.landed;
  const Panel whole{0, landed.m, 0, landed.n};
  const bool has_padding = IsPadded(sent.a, landed.a) || IsPadded(sent.b, landed.b);
  if (has_padding) commands->Zero(block, prepared.block.inputs_bytes, streams_.copy_in);
  CopyInVectors(prepared, block, ring, commands);
  if (!CutsRows(prepared.panels))
    CopyInMatrix(prepared, WorkPlane::kA, RectOfA(sent, whole), block, ring, commands);
  if (!CutsColumns(prepared.panels))
    CopyInMatrix(prepared, WorkPlane::kB, RectOfB(sent, whole), block, ring, commands);
}

// Returns the mark at which the panel's copies in end.
CudaEvent LargeIssuer::IssuePanel(const PreparedWork& prepared, std::size_t index, CudaEvent begin,
                                  char* block, StagingRing* ring, CudaCommands* commands,
                                  std::vector<TimedStage>* stages) const {
  const Problem& sent = prepared.work->problem;
  const Panel& panel = prepared.panels[index];
  if (CutsRows(prepared.panels))
    CopyInMatrix(prepared, WorkPlane::kA, RectOfA(sent, panel), block, ring, commands);
  if (CutsColumns(prepared.panels))
    CopyInMatrix(prepared, WorkPlane::kB, RectOfB(sent, panel), block, ring, commands);
  if (HasPlane(sent, WorkPlane::kC)) {
    CopyInMatrix(prepared, WorkPlane::kC, RectOfD(sent.c, panel), block, ring, commands);
  }
  const CudaEvent landed_mark = commands->Mark(streams_.copy_in);
  stages->push_back({Stage::kCopyIn, begin, landed_mark});

  commands->Wait(streams_.compute, landed_mark);
  const CudaEvent compute_begin = commands->Mark(streams_.compute);
  ComputePanel(prepared, panel, index == 0, block, streams_.compute, commands);
  const CudaEvent computed = commands->Mark(streams_.compute);
  stages->push_back({Stage::kCompute, compute_begin, computed});

  commands->Wait(streams_.copy_out, computed);
  const CudaEvent copy_out_begin = commands->Mark(streams_.copy_out);
  CopyPanelOut(prepared, panel, block, streams_.copy_out, commands);
  const CudaEvent copy_out_end = commands->Mark(streams_.copy_out);
  stages->push_back({Stage::kCopyOut, copy_out_begin, copy_out_end});
  return landed_mark;
}

void LargeIssuer::Land(const MatrixLayout& sent, const MatrixLayout& landed, const void* host,
                       char* scratch, char* to, CudaStream stream, StagingRing* ring,
                       CudaCommands* commands) const {
  if (IsPadded(sent, landed)) commands->Zero(to, LandedBytes(landed), stream);
  CopyIn(sent, landed, {host, Access::kHost}, WholePlane(sent), scratch, stream, ring, commands);
  if (IsTransposed(sent, landed)) {
    TransposeInput(sent, landed, 0, landed.outer(), scratch, to, stream, commands);
  }
}

void LargeIssuer::CopyIn(const MatrixLayout& sent, const MatrixLayout& landed,
                         const OperandSource& from, const PlaneRect& rect, void* to,
                         CudaStream stream, StagingRing* ring, CudaCommands* commands) const {
  if (rect.lines() == 0 || rect.width() == 0 || !commands->status().ok()) return;
  const std::uint64_t pitch = Pitch(InputLayout(sent, landed));
  if (from.access != Access::kHost || IsPinned(from.data, sent.size_bytes())) {
    commands->Copy(DirectionFrom(from.access), CopyOfRect(rect, from.data, Pitch(sent), to, pitch),
                   stream);
  } else {
    commands->Update(ring->Copy(rect, from.data, Pitch(sent), to, pitch, stream));
    commands->CountCopied(CopyDirection::kToDevice,
                          rect.width() * static_cast<std::uint64_t>(rect.lines()));
  }
}

void LargeIssuer::CopyInVectors(const PreparedWork& prepared, char* block, StagingRing* ring,
                                CudaCommands* commands) const {
  for (const VectorInput& vector : VectorInputs(prepared)) {
    if (!commands->status().ok()) return;
    commands->Update(ring->Copy({0, 1, 0, vector.bytes}, vector.host, vector.bytes,
                                vector.part.In(block), vector.bytes, streams_.copy_in));
    commands->CountCopied(CopyDirection::kToDevice, vector.bytes);
  }
}

void LargeIssuer::CopyInMatrix(const PreparedWork& prepared, WorkPlane plane, const PlaneRect& rect,
                               char* block, StagingRing* ring, CudaCommands* commands) const {
  if (prepared.resident[plane]) return;
  const HostBuffers& buffers = prepared.work->buffers;
  CopyIn(CopiedLayout(PlaneOf(prepared.work->problem, plane)),
         CopiedLayout(PlaneOf(prepared.landed, plane)), {buffers[plane], buffers.access[plane]},
         rect, prepared.block.inputs[plane].In(block), streams_.copy_in, ring, commands);
}

bool LargeIssuer::IsPinned(const void* data, std::uint64_t bytes) const {
  return std::any_of(pinned_.begin(), pinned_.end(),
                     [&](const PinnedPool* pool) { return pool->Contains(data, bytes); });
}

}  // namespace gemmd
