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
  HostMemory a;
  HostMemory a_scales;
  HostMemory a_zero_points;
  HostMemory d;
};

void Gather(const std::vector<DeviceWork>& works, const JoinedBuffers& joined) {
  auto* a = static_cast<char*>(joined.a.get());
  auto* scales = static_cast<char*>(joined.a_scales.get());
  auto* zero_points = static_cast<char*>(joined.a_zero_points.get());
  const auto append = [](const DeviceWork& work, WorkPlane plane, char** to) {
    const std::uint64_t bytes = PlaneBytes(work.problem, plane);
    if (bytes != 0) std::memcpy(*to, work.buffers.of(plane), bytes);
    *to += bytes;
  };
  for (const DeviceWork& work : works) {
    const RowSpan rows = RowsOfA(work.problem);
    CopyRows(rows, static_cast<const char*>(work.buffers.a), rows.pitch, a, rows.width);
    a += rows.width * static_cast<std::uint64_t>(rows.rows);
    append(work, WorkPlane::kAScales, &scales);
    append(work, WorkPlane::kAZeroPoints, &zero_points);
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
  const std::uint64_t a_bytes = joined.problem.a.size_bytes();
  const std::uint64_t d_bytes = joined.problem.d.size_bytes();
  const std::uint64_t scale_bytes = PlaneBytes(joined.problem, WorkPlane::kAScales);
  const std::uint64_t zero_point_bytes = PlaneBytes(joined.problem, WorkPlane::kAZeroPoints);
  // Each work has its own plan's workspace, which it does not use here.
  std::uint64_t workspace_bytes = joined.plan.workspace_bytes;
  for (const DeviceWork& work : works) {
    workspace_bytes -= std::min(workspace_bytes, work.plan.workspace_bytes);
  }
  const absl::StatusOr<MemoryReservation> reservation =
      memory->Reserve(a_bytes + d_bytes + scale_bytes + zero_point_bytes, workspace_bytes);
  if (!reservation.ok()) return RunOneByOne(works, run);
  const JoinedBuffers buffers{AllocateHostMemory(a_bytes), AllocateHostMemory(scale_bytes),
                              AllocateHostMemory(zero_point_bytes), AllocateHostMemory(d_bytes)};
  if (buffers.a == nullptr || buffers.a_scales == nullptr || buffers.a_zero_points == nullptr ||
      buffers.d == nullptr) {
    return RunOneByOne(works, run);
  }
  const TimeNs start = clock->Now();
  Gather(works, buffers);
  const TimeNs gathered = clock->Now();
  joined.buffers.a = buffers.a.get();
  if (scale_bytes != 0) joined.buffers.a_scales = buffers.a_scales.get();
  if (zero_point_bytes != 0) joined.buffers.a_zero_points = buffers.a_zero_points.get();
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
  buffers.a = At(buffers.a, offsets.a);
  buffers.b = At(buffers.b, offsets.b);
  buffers.c = At(buffers.c, offsets.c);
  buffers.bias = At(buffers.bias, offsets.bias);
  buffers.a_scales = At(buffers.a_scales, offsets.a_scales);
  buffers.b_scales = At(buffers.b_scales, offsets.b_scales);
  buffers.a_zero_points = At(buffers.a_zero_points, offsets.a_zero_points);
  buffers.b_zero_points = At(buffers.b_zero_points, offsets.b_zero_points);
  HostPiece& d = buffers.d.front();
  d.data += offsets.d;
  d.size_bytes -= offsets.d;
  return slice;
}

}  // namespace gemmd
