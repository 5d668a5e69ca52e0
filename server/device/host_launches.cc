#include "server/device/host_launches.h"

#include <algorithm>
#include <cstring>

#include "server/device/host_memory.h"
#include "server/device/rows.h"

namespace gemmd {
namespace {

void CopyRows(const RowSpan& span, const char* from, std::uint64_t from_pitch, char* to,
              std::uint64_t to_pitch) {
  for (std::int64_t row = 0; row < span.rows; ++row) {
    std::memcpy(to, from, span.width);
    from += from_pitch;
    to += to_pitch;
  }
}

// The memory that the rows of a batch are gathered in.
struct JoinedBuffers {
  Planes<HostMemory> planes;  // of A; empty where the rows do not have the plane
  HostMemory d;
};

void Gather(const std::vector<DeviceWork>& works, const JoinedBuffers& joined) {
  Planes<char*> to;
  for (const WorkPlane plane : kPlanesOfA)
    to[plane] = static_cast<char*>(joined.planes[plane].get());
  for (const DeviceWork& work : works) {
    const RowSpan rows = RowsOfA(work.problem);
    CopyRows(rows, static_cast<const char*>(work.buffers[WorkPlane::kA]), rows.pitch,
             to[WorkPlane::kA], rows.width);
    to[WorkPlane::kA] += rows.width * static_cast<std::uint64_t>(rows.rows);
    for (const WorkPlane plane : kPlanesOfA) {
      const std::uint64_t bytes = PlaneBytes(work.problem, plane);
      if (plane == WorkPlane::kA || bytes == 0) continue;
      std::memcpy(to[plane], work.buffers[plane], bytes);
      to[plane] += bytes;
    }
  }
}

void Scatter(const std::vector<DeviceWork>& works, const JoinedBuffers& joined) {
  const auto* d = static_cast<const char*>(joined.d.get());
  for (const DeviceWork& work : works) {
    const RowSpan rows = RowsOfD(work.problem);
    CopyRows(rows, d, rows.width, work.buffers.d.front().data, rows.pitch);
    d += rows.width * static_cast<std::uint64_t>(rows.rows);
  }
}

const void* At(const void* plane, std::uint64_t offset) {
  return plane == nullptr ? nullptr : static_cast<const char*>(plane) + offset;
}

}  // namespace

DeviceResult RunOneByOne(const std::vector<DeviceWork>& works, const RunWork& run) {
  DeviceResult all;
  for (const DeviceWork& work : works) {
    DeviceResult result = run(work);
    all.spans.insert(all.spans.end(), result.spans.begin(), result.spans.end());
    all.status = std::move(result.status);
    if (!all.status.ok()) break;
  }
  return all;
}

DeviceResult RunRows(const DeviceLaunch& launch, MemoryBudget* memory, const Clock* clock,
                     const RunWork& run) {
  const std::vector<DeviceWork>& works = launch.works;
  DeviceWork joined = works.front();
  joined.problem = JoinedRows(works);
  joined.plan = launch.rows_plan;
  const std::uint64_t d_bytes = joined.problem.d.size_bytes();
  std::uint64_t bytes = d_bytes;
  for (const WorkPlane plane : kPlanesOfA) bytes += PlaneBytes(joined.problem, plane);
  // Each work has its own plan's workspace, which it does not use here.
  std::uint64_t workspace_bytes = joined.plan.workspace_bytes;
  for (const DeviceWork& work : works) {
    workspace_bytes -= std::min(workspace_bytes, work.plan.workspace_bytes);
  }
  const absl::StatusOr<MemoryReservation> reservation = memory->Reserve(bytes, workspace_bytes);
  if (!reservation.ok()) return RunOneByOne(works, run);
  JoinedBuffers buffers;
  buffers.d = AllocateHostMemory(d_bytes);
  bool has_memory = buffers.d != nullptr;
  for (const WorkPlane plane : kPlanesOfA) {
    if (!HasPlane(joined.problem, plane)) continue;
    buffers.planes[plane] = AllocateHostMemory(PlaneBytes(joined.problem, plane));
    has_memory = has_memory && buffers.planes[plane] != nullptr;
    joined.buffers[plane] = buffers.planes[plane].get();
  }
  if (!has_memory) return RunOneByOne(works, run);
  const TimeNs start = clock->Now();
  Gather(works, buffers);
  const TimeNs gathered = clock->Now();
  joined.buffers.d = {{static_cast<char*>(buffers.d.get()), d_bytes, nullptr}};
  DeviceResult result = run(joined);
  if (absl::IsResourceExhausted(result.status)) return RunOneByOne(works, run);
  result.spans.insert(result.spans.begin(), {Stage::kCopyIn, start, gathered});
  if (!result.status.ok()) return result;
  const TimeNs computed = clock->Now();
  Scatter(works, buffers);
  result.spans.push_back({Stage::kCopyOut, computed, clock->Now()});
  return result;
}

std::shared_ptr<SlicedHostWork> SlicedHostWork::Make(const DeviceWork& work, const Problem& landed,
                                                     std::vector<Panel> blocks) {
  if (blocks.size() < 2) return nullptr;
  for (const Panel& block : blocks) {
    if (work.plan.kernel->WorkspaceBytes(PanelProblem(landed, block), work.plan.config) >
        work.plan.workspace_bytes) {
      return nullptr;
    }
  }
  return std::shared_ptr<SlicedHostWork>(new SlicedHostWork(work, landed, std::move(blocks)));
}

DeviceWork SlicedHostWork::Slice(int index) const {
  const Panel& block = blocks_[static_cast<std::size_t>(index)];
  const PanelOffsets offsets = OffsetsOf(work_.problem, block);
  DeviceWork slice = work_;
  slice.problem = PanelProblem(work_.problem, block);
  slice.plan.workspace_bytes =
      work_.plan.kernel->WorkspaceBytes(PanelProblem(landed_, block), work_.plan.config);
  HostBuffers& buffers = slice.buffers;
  for (const WorkPlane plane : kWorkPlanes) buffers[plane] = At(buffers[plane], offsets[plane]);
  HostPiece& d = buffers.d.front();
  d.data += offsets.d;
  d.size_bytes -= offsets.d;
  return slice;
}

}  // namespace gemmd
