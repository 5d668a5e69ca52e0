#include "server/device/cuda/launches/large_issuer.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace gemmd {
namespace {

// The operand that arrives whole, from the host, where the other one is cut.
std::optional<WorkPlane> UncutPlane(const PreparedWork& prepared) {
  const bool cuts_rows = CutsRows(prepared.panels);
  if (cuts_rows == CutsColumns(prepared.panels)) return std::nullopt;
  const WorkPlane plane = cuts_rows ? WorkPlane::kB : WorkPlane::kA;
  if (prepared.resident[plane]) return std::nullopt;
  return plane;
}

// Pieces [begin, end) of `count`, of the plane's lines.
PlaneRect PieceOf(const PreparedWork& prepared, WorkPlane plane, int begin, int end, int count) {
  PlaneRect rect = WholePlane(CopiedLayout(PlaneOf(prepared.work->problem, plane)));
  const std::int64_t lines = rect.line_end;
  rect.line_begin = lines * begin / count;
  rect.line_end = lines * end / count;
  return rect;
}

// The launch of groups: of all at once, or of one after another, each by its plan.
CudaBackend::LaunchFunction LaunchOfGroups(const DeviceWork& grouped, const StackBlock& layout,
                                           char* block) {
  const Stack& stack = grouped.stack;
  if (grouped.groups_go_together) {
    return [plan = grouped.plan, problem = layout.landed, row_ends = stack.row_ends,
            groups = layout.GroupsOf(grouped),
            arguments = layout.ArgumentsOfProduct(grouped, block, 0)](const LaunchTarget& target) {
      return plan.kernel->LaunchGroups(problem, plan.config, groups, arguments, target);
    };
  }
  std::vector<StackBlock::Group> groups;
  for (std::int64_t i = 0; i < stack.count; ++i) {
    if (stack.row_begin(i) != stack.row_end(i)) groups.push_back(layout.GroupOf(grouped, block, i));
  }
  return [plans = grouped.plans, groups = std::move(groups)](const LaunchTarget& target) {
    for (const StackBlock::Group& group : groups) {
      const Plan& plan = *group.plan;
      absl::Status status = plan.kernel->Launch(group.landed, plan.config, group.arguments, target);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  };
}

// The launch of all products of a stack.
CudaBackend::LaunchFunction LaunchOf(const DeviceWork& stacked, const StackBlock& layout,
                                     char* block) {
  if (stacked.stack.has_groups()) return LaunchOfGroups(stacked, layout, block);
  return [kernel = stacked.plan.kernel, config = stacked.plan.config, problem = layout.landed,
          batch = layout.arguments(stacked, block)](const LaunchTarget& target) {
    return kernel->LaunchBatch(problem, config, batch, target);
  };
}

}  // namespace

PiecesAhead CutIntoPieces(const PreparedWork& prepared, std::uint64_t panel_bytes) {
  constexpr std::uint64_t kPanelsAPiece = 16;
  PiecesAhead ahead;
  const std::optional<WorkPlane> plane = UncutPlane(prepared);
  if (!plane.has_value()) return ahead;
  const MatrixLayout sent = PlaneOf(prepared.work->problem, *plane);
  if (sent.size_bytes() < panel_bytes) return ahead;
  const std::uint64_t count = sent.size_bytes() / (kPanelsAPiece * panel_bytes) + 1;
  ahead.count =
      static_cast<int>(std::min<std::uint64_t>(count, static_cast<std::uint64_t>(sent.outer())));
  return ahead;
}

IssuedWork LargeIssuer::Issue(const PreparedWork& prepared, CudaSlot* slot,
                              StagingRing* ring) const {
  char* block = nullptr;
  return IssuePanels(prepared, 0, prepared.panels.size(), {}, &block, slot, ring);
}

IssuedWork LargeIssuer::IssueStack(const DeviceWork& stacked, const StackBlock& layout,
                                   CudaSlot* slot, StagingRing* ring) const {
  CudaCommands commands(backend_, slot);
  IssuedWork issued;
  char* block = nullptr;
  if (layout.total_bytes != 0) {
    block = static_cast<char*>(commands.Allocate(layout.total_bytes, streams_.copy_in));
    if (block == nullptr) {
      issued.status = commands.TakeStatus();
      return issued;
    }
  }
  AwaitKept(stacked, {streams_.compute}, &commands);
  const CudaEvent begin = commands.Mark(streams_.copy_in);
  for (const WorkPlane plane : kWorkPlanes) {
    const std::optional<StackPlane>& own = layout.planes[plane];
    if (!own.has_value()) continue;
    CopyIn(own->sent, own->landed, {stacked.buffers[plane], stacked.buffers.access[plane]},
           WholePlane(own->sent), own->part.In(block), streams_.copy_in, ring, &commands);
  }
  const CudaEvent landed = commands.Mark(streams_.copy_in);
  issued.stages.push_back({Stage::kCopyIn, begin, landed});

  commands.Wait(streams_.compute, landed);
  const CudaEvent compute_begin = commands.Mark(streams_.compute);
  commands.Launch(LaunchOf(stacked, layout, block), streams_.compute);
  const CudaEvent computed = commands.Mark(streams_.compute);
  issued.stages.push_back({Stage::kCompute, compute_begin, computed});

  commands.Wait(streams_.copy_out, computed);
  if (stacked.resident.d == nullptr) {
    const CudaEvent copy_out_begin = commands.Mark(streams_.copy_out);
    CopyResultsOut(stacked,
                   CopiesToPieces(layout.d.sent, stacked.buffers.d, WholePlane(layout.d.sent),
                                  layout.d.part.In(block), Pitch(layout.d.landed)),
                   &commands);
    issued.stages.push_back({Stage::kCopyOut, copy_out_begin, commands.Mark(streams_.copy_out)});
  }
  issued.drains = Drains(stacked);
  return Close(std::move(issued), true, &block, streams_.copy_out, &commands);
}

IssuedWork LargeIssuer::IssueStrip(const DeviceWork& whole, WorkPlane shared,
                                   const SharedStrip& strip, char** block, CudaSlot* slot,
                                   StagingRing* ring) const {
  CudaCommands commands(backend_, slot);
  IssuedWork issued;
  *block = static_cast<char*>(commands.Allocate(strip.total_bytes, streams_.copy_in));
  if (*block == nullptr) {
    issued.status = commands.TakeStatus();
    return issued;
  }
  const char* const data = static_cast<const char*>(whole.buffers[shared]) +
                           OffsetsOf(whole.problem, strip.panel)[shared];
  char* const scratch = *block + (strip.total_bytes - strip.scratch_bytes);
  const CudaEvent begin = commands.Mark(streams_.copy_in);
  Land(strip.sent, strip.landed, {data, whole.buffers.access[shared]},
       strip.scratch_bytes == 0 ? *block : scratch, *block, streams_.copy_in, ring, &commands);
  issued.stages.push_back({Stage::kCopyIn, begin, commands.Mark(streams_.copy_in)});
  return Close(std::move(issued), false, block, streams_.copy_in, &commands);
}

IssuedWork LargeIssuer::Discard(char** block, CudaSlot* slot) const {
  CudaCommands commands(backend_, slot);
  AwaitAll(&commands);
  return Close({}, true, block, streams_.copy_out, &commands);
}

IssuedWork LargeIssuer::IssuePanels(const PreparedWork& prepared, std::size_t first,
                                    std::size_t end, const PiecesAhead& ahead, char** block,
                                    CudaSlot* slot, StagingRing* ring) const {
  CudaCommands commands(backend_, slot);
  IssuedWork issued;
  if (first == 0 && !TakeBlock(prepared, block, &commands)) {
    issued.status = commands.TakeStatus();
    return issued;
  }
  if (first == 0) AwaitKept(*prepared.work, {streams_.compute, streams_.copy_out}, &commands);
  CudaEvent begin = commands.Mark(streams_.copy_in);
  if (first == 0) CopyInWhole(prepared, ahead, *block, ring, &commands);
  for (std::size_t i = first; i < end; ++i) {
    begin = IssuePanel(prepared, i, begin, *block, ring, &commands, &issued.stages);
  }
  issued.drains = Drains(*prepared.work);
  return Close(std::move(issued), end == prepared.panels.size(), block, streams_.copy_out,
               &commands);
}

IssuedWork LargeIssuer::IssueAhead(const PreparedWork& prepared, const PiecesAhead& ahead,
                                   char** block, CudaSlot* slot, StagingRing* ring) const {
  CudaCommands commands(backend_, slot);
  IssuedWork issued;
  if (!TakeBlock(prepared, block, &commands)) {
    issued.status = commands.TakeStatus();
    return issued;
  }
  const WorkPlane plane = UncutPlane(prepared).value();
  const CudaEvent begin = commands.Mark(streams_.copy_in);
  const PlaneRect piece = PieceOf(prepared, plane, ahead.issued, ahead.issued + 1, ahead.count);
  CopyInMatrix(prepared, plane, piece, *block, ring, &commands);
  const CudaEvent end = commands.Mark(streams_.copy_in);
  issued.stages.push_back({Stage::kCopyIn, begin, end});
  return Close(std::move(issued), false, block, streams_.copy_in, &commands);
}

bool LargeIssuer::TakeBlock(const PreparedWork& prepared, char** block,
                            CudaCommands* commands) const {
  if (*block != nullptr || prepared.block.total_bytes == 0) return true;
  *block = static_cast<char*>(commands->Allocate(prepared.block.total_bytes, streams_.copy_in));
  if (*block == nullptr) return false;
  const Problem& sent = prepared.work->problem;
  const Problem& landed = prepared.landed;
  if (IsPadded(sent.a, landed.a) || IsPadded(sent.b, landed.b)) {
    commands->Zero(*block, prepared.block.inputs_bytes, streams_.copy_in);
  }
  return true;
}

void LargeIssuer::AwaitAll(CudaCommands* commands) const {
  commands->Wait(streams_.compute, commands->Mark(streams_.copy_in));
  commands->Wait(streams_.copy_out, commands->Mark(streams_.compute));
}

IssuedWork LargeIssuer::Close(IssuedWork issued, bool is_last, char** block, CudaStream stream,
                              CudaCommands* commands) const {
  issued.status = commands->TakeStatus();
  if (!issued.status.ok()) {
    // The launch ends when all that was issued for it has: the block and the caller's memory
    // are in use until then.
    stream = streams_.copy_out;
    AwaitAll(commands);
  }
  if (*block != nullptr && (is_last || !issued.status.ok())) {
    commands->Free(*block, streams_.copy_out);
    *block = nullptr;
  }
  issued.last = commands->Mark(stream);
  issued.copied = commands->copied();
  issued.status.Update(commands->status());
  return issued;
}

// Copies the operands that arrive before the first panel: vectors, and operands that are not cut.
void LargeIssuer::CopyInWhole(const PreparedWork& prepared, const PiecesAhead& ahead, char* block,
                              StagingRing* ring, CudaCommands* commands) const {
  const Problem& sent = prepared.work->problem;
  const Panel whole{0, prepared.landed.m, 0, prepared.landed.n};
  CopyInVectors(prepared, block, ring, commands);
  if (ahead.issued > 0) {
    const WorkPlane plane = UncutPlane(prepared).value();
    const PlaneRect rest = PieceOf(prepared, plane, ahead.issued, ahead.count, ahead.count);
    CopyInMatrix(prepared, plane, rest, block, ring, commands);
    return;
  }
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
  if (Drains(*prepared.work)) {
    CopyResultsOut(*prepared.work, CopiesOut(prepared, panel, block), commands);
  } else {
    CopyPanelOut(prepared, panel, block, streams_.copy_out, commands);
  }
  const CudaEvent copy_out_end = commands->Mark(streams_.copy_out);
  stages->push_back({Stage::kCopyOut, copy_out_begin, copy_out_end});
  return landed_mark;
}

void LargeIssuer::CopyResultsOut(const DeviceWork& work, const std::vector<CudaRect>& copies,
                                 CudaCommands* commands) const {
  const bool drains = Drains(work);
  const CopyDirection direction = work.buffers.d_access == Access::kDevice
                                      ? CopyDirection::kWithinDevice
                                      : CopyDirection::kFromDevice;
  for (const CudaRect& copy : copies) {
    if (!commands->status().ok()) return;
    if (!drains) {
      commands->Copy(direction, copy, streams_.copy_out);
      continue;
    }
    commands->Update(drains_->Copy(copy, streams_.copy_out));
    commands->CountCopied(CopyDirection::kFromDevice, copy.width * copy.lines);
  }
}

void LargeIssuer::Land(const MatrixLayout& sent, const MatrixLayout& landed, const SentPlane& from,
                       char* scratch, char* to, CudaStream stream, StagingRing* ring,
                       CudaCommands* commands) const {
  if (IsPadded(sent, landed)) commands->Zero(to, LandedBytes(landed), stream);
  CopyIn(sent, landed, from, WholePlane(sent), scratch, stream, ring, commands);
  if (IsTransposed(sent, landed)) {
    TransposeInput(sent, landed, 0, landed.outer(), scratch, to, stream, commands);
  }
}

void LargeIssuer::CopyIn(const MatrixLayout& sent, const MatrixLayout& landed,
                         const SentPlane& from, const PlaneRect& rect, void* to, CudaStream stream,
                         StagingRing* ring, CudaCommands* commands) const {
  if (rect.lines() == 0 || rect.width() == 0 || !commands->status().ok()) return;
  const std::uint64_t pitch = Pitch(InputLayout(sent, landed));
  if (from.access != Access::kHost || IsPinned(from.data, sent.size_bytes())) {
    commands->Copy(DirectionFrom(from.access), CopyOfRect(rect, from.data, Pitch(sent), to, pitch),
                   stream);
  } else {
    const std::uint64_t line_bytes = WholePlane(sent).width();
    commands->Update(ring->Copy(rect, from.data, Pitch(sent), to, pitch, line_bytes, stream));
    commands->CountCopied(CopyDirection::kToDevice,
                          rect.width() * static_cast<std::uint64_t>(rect.lines()));
  }
}

void LargeIssuer::CopyInVectors(const PreparedWork& prepared, char* block, StagingRing* ring,
                                CudaCommands* commands) const {
  for (const VectorInput& vector : VectorInputs(prepared)) {
    if (!commands->status().ok()) return;
    commands->Update(ring->Copy({0, 1, 0, vector.bytes}, vector.host, vector.bytes,
                                vector.part.In(block), vector.bytes, vector.bytes,
                                streams_.copy_in));
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

bool LargeIssuer::Drains(const DeviceWork& work) const {
  const HostBuffers& buffers = work.buffers;
  return work.resident.d == nullptr && buffers.d_access == Access::kHost &&
         !IsPinned(buffers.d.front().data, buffers.d.front().size_bytes);
}

bool LargeIssuer::IsPinned(const void* data, std::uint64_t bytes) const {
  return std::any_of(pinned_.begin(), pinned_.end(),
                     [&](const PinnedPool* pool) { return pool->Contains(data, bytes); });
}

}  // namespace gemmd
