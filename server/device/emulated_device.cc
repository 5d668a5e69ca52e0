#include "server/device/emulated_device.h"

#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/device/host_launches.h"
#include "server/device/host_memory.h"
#include "server/device/rows.h"
#include "server/device/slices.h"

namespace gemmd {
namespace {

constexpr std::int64_t kLineBits = 128;  // 16 bytes
constexpr double kSmallFlops = 2.0 * 128 * 128 * 128;
constexpr SliceSteps kSliceSteps{256, 256};  // multiples of every kernel's tile

void PadLines(MatrixLayout* layout) {
  const std::int64_t elements = kLineBits / SizeBits(layout->type);
  layout->leading_dimension = (layout->inner() + elements - 1) / elements * elements;
}

// Bytes of whole lines, so that a kernel may touch the padding of the last one too.
std::uint64_t PaddedBytes(const MatrixLayout& layout) {
  return static_cast<std::uint64_t>(layout.outer()) *
         static_cast<std::uint64_t>(layout.leading_dimension) *
         static_cast<std::uint64_t>(SizeBits(layout.type)) / 8;
}

// Line by line, between layouts that differ in their leading dimension alone.
void CopyLines(const MatrixLayout& from_layout, const void* from, const MatrixLayout& to_layout,
               void* to) {
  const auto bytes = [](const MatrixLayout& layout, std::int64_t elements) {
    return static_cast<std::size_t>(elements) * static_cast<std::size_t>(SizeBits(layout.type)) / 8;
  };
  for (std::int64_t line = 0; line < from_layout.outer(); ++line) {
    std::memcpy(
        static_cast<char*>(to) + bytes(to_layout, line * to_layout.leading_dimension),
        static_cast<const char*>(from) + bytes(from_layout, line * from_layout.leading_dimension),
        bytes(from_layout, from_layout.inner()));
  }
}

// A plane where a kernel reads it: in memory of its own, or where it was if it is quantized and
// lands as it was sent.
struct LandedPlane {
  const void* data = nullptr;  // null if there is no memory, or nothing to land
  HostMemory memory;
};

LandedPlane Land(const MatrixLayout& layout, const void* data, const MatrixLayout& landed) {
  LandedPlane plane;
  if (data == nullptr) return plane;
  if (IsQuantizedType(layout.type) && landed.leading_dimension == layout.leading_dimension) {
    plane.data = data;
    return plane;
  }
  plane.memory = AllocateHostMemory(PaddedBytes(landed));
  if (plane.memory == nullptr) return plane;
  std::memset(plane.memory.get(), 0, PaddedBytes(landed));
  CopyLines(layout, data, landed, plane.memory.get());
  plane.data = plane.memory.get();
  return plane;
}

}  // namespace

EmulatedDevice::EmulatedDevice(std::uint64_t memory_bytes, const Clock* clock)
    : clock_(clock),
      memory_(memory_bytes),
      thread_([this](const DeviceLaunch& launch) { return Launch(launch); }) {
  traits_.kind = DeviceKind::kEmulated;
  traits_.name = "emulated";
  traits_.model = "GPU emulator with the arithmetic of sm_90";
  traits_.compute_capability = 90;
  traits_.compute_units = 1;
}

Problem EmulatedDevice::Landed(const Problem& problem) const {
  Problem landed = problem;
  const bool is_as_sent = IsDequantized(problem) || problem.b_packing != Packing::kNone;
  for (MatrixLayout* layout : {&landed.a, &landed.b, &landed.c, &landed.d}) {
    if (!is_as_sent || !IsQuantizedType(layout->type)) PadLines(layout);
  }
  return landed;
}

BatchForm EmulatedDevice::FormOf(const DeviceWork& work) const {
  if (HasJoinableRows(work)) return BatchForm::kRows;
  return work.problem.flops() <= kSmallFlops ? BatchForm::kGroup : BatchForm::kAlone;
}

std::shared_ptr<SlicedWork> EmulatedDevice::Cut(const DeviceWork& work, double slice_us) {
  if (work.stack.has_groups()) return GroupSlices::Make(work, slice_us, false);
  if (!work.stack.is_one()) return StackSlices::Make(work, work.ProductsWithin(slice_us));
  // Each slice would pack all of B.
  if (work.problem.b_packing != Packing::kNone) return nullptr;
  const Problem landed = Landed(work.problem);
  return SlicedHostWork::Make(work, landed,
                              CutIntoSlices(landed, work.plan, traits_, kSliceSteps, slice_us));
}

DeviceResult EmulatedDevice::Launch(const DeviceLaunch& launch) {
  const auto run = [this](const DeviceWork& work) { return Run(work); };
  switch (launch.form) {
    case BatchForm::kRows:
      return RunRows(launch, &memory_, clock_, run);
    case BatchForm::kSlice:
      return Run(static_cast<const SlicedHostWork&>(*launch.sliced).Slice(launch.slice));
    case BatchForm::kGroup:
    case BatchForm::kAlone:
      break;
  }
  return RunOneByOne(launch.works, run);
}

DeviceResult EmulatedDevice::Run(const DeviceWork& work) const {
  const Problem landed = Landed(work.problem);
  DeviceResult result;
  const TimeNs start = clock_->Now();
  Planes<const void*> planes = work.buffers;
  Planes<LandedPlane> matrices;
  bool has_memory = true;
  for (const WorkPlane plane : {WorkPlane::kA, WorkPlane::kB, WorkPlane::kC}) {
    matrices[plane] = Land(PlaneOf(work.problem, plane), planes[plane], PlaneOf(landed, plane));
    has_memory = has_memory && (planes[plane] == nullptr || matrices[plane].data != nullptr);
    planes[plane] = matrices[plane].data;
  }
  emulator::Session session;
  LaunchTarget target;
  target.emulator = &session;
  Planes<HostMemory> packed;
  for (const WorkPlane plane : kPlanesOfB) {
    const std::optional<WeightPlane> weights = PackedPlaneOf(landed, plane);
    if (!weights.has_value() || planes[plane] == nullptr) continue;
    packed[plane] = AllocateHostMemory(PackedBytes(landed, *weights));
    if (packed[plane] == nullptr) {
      has_memory = false;
      continue;
    }
    const absl::Status status =
        PackPlane(landed, *weights, planes[plane], packed[plane].get(), target);
    result.status.Update(status);
    planes[plane] = packed[plane].get();
  }
  if (!result.status.ok()) return result;
  const HostMemory d = AllocateHostMemory(PaddedBytes(landed.d));
  const HostMemory workspace = AllocateHostMemory(work.plan.workspace_bytes);
  if (!has_memory || d == nullptr || workspace == nullptr) {
    result.status = absl::ResourceExhaustedError("the host has no memory for the landed operands");
    return result;
  }
  const TimeNs landed_at = clock_->Now();
  Arguments arguments = ArgumentsOf(planes);
  arguments.d = d.get();
  arguments.workspace = workspace.get();
  result.status = work.plan.kernel->Launch(landed, work.plan.config, arguments, target);
  const TimeNs computed_at = clock_->Now();
  if (result.status.ok()) {
    CopyLines(landed.d, d.get(), work.problem.d, work.buffers.d.front().data);
  }
  result.spans = {{Stage::kCopyIn, start, landed_at},
                  {Stage::kCompute, landed_at, computed_at},
                  {Stage::kCopyOut, computed_at, clock_->Now()}};
  return result;
}

}  // namespace gemmd
