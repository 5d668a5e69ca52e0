// Kernels that fill operands and compare results on the GPU.
#pragma once

#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/indices.h"
#include "kernels/workshop/bench/device_params.h"
#include "kernels/workshop/bench/elements.h"

namespace gemmd::bench {

inline constexpr std::uint32_t kPlaneThreads = 256;

inline namespace GEMMD_BACKEND {

GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kPlaneThreads, 1)
    Fill(const GEMMD_GRID_CONSTANT FillWork work) {
  auto* out = static_cast<ptx::Vector4*>(work.data);
  const std::uint64_t step = std::uint64_t{ptx::GridSizeX()} * kPlaneThreads;
  for (std::uint64_t i = std::uint64_t{ptx::BlockIndexX()} * kPlaneThreads + ptx::ThreadIndex();
       i < work.units; i += step) {
    ptx::StoreGlobal(out + i, ptx::Vector4{RandomWord(work.type, work.seed, 4 * i),
                                           RandomWord(work.type, work.seed, 4 * i + 1),
                                           RandomWord(work.type, work.seed, 4 * i + 2),
                                           RandomWord(work.type, work.seed, 4 * i + 3)});
  }
}

// An f16 as f32: exact, and by integers, so that no machine's conversion matters.
GEMMD_DEVICE float WidenF16(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u)
    return ptx::FloatOfBits(sign | 0x7f800000u | ((magnitude & 0x3ff) << 13));
  return ptx::FloatOfBits(
      sign | ptx::BitsOfFloat(ptx::FloatOfBits(magnitude << 13) * 5.192296858534828e33f));
}

// Element i of a plane.
GEMMD_DEVICE double PlaneElement(DataType type, const void* plane, std::int64_t i) {
  switch (type) {
    case DataType::kF64:
      return ptx::LoadGlobal(static_cast<const double*>(plane) + i);
    case DataType::kInt32:
      return ptx::LoadGlobal(static_cast<const std::int32_t*>(plane) + i);
    case DataType::kF16:
      return WidenF16(ptx::LoadGlobal(static_cast<const std::uint16_t*>(plane) + i));
    case DataType::kBf16:
      return ptx::FloatOfBits(
          std::uint32_t{ptx::LoadGlobal(static_cast<const std::uint16_t*>(plane) + i)} << 16);
    default:
      return ptx::LoadGlobal(static_cast<const float*>(plane) + i);
  }
}

GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kPlaneThreads, 1)
    Compare(const GEMMD_GRID_CONSTANT CompareWork work) {
  const std::uint32_t thread = ptx::BlockIndexX() * kPlaneThreads + ptx::ThreadIndex();
  const std::uint32_t step = ptx::GridSizeX() * kPlaneThreads;
  std::uint32_t different = 0;
  float largest = 0;
  const std::int64_t count = work.lines * work.columns;
  for (std::int64_t i = thread; i < count; i += step) {
    const std::int64_t index = i / work.columns * work.pitch + i % work.columns;
    const double difference =
        PlaneElement(work.type, work.d, index) - PlaneElement(work.type, work.reference, index);
    const auto magnitude = static_cast<float>(difference < 0 ? -difference : difference);
    different += magnitude <= work.limit ? 0 : 1;  // NaN is not within it
    largest = magnitude > largest ? magnitude : largest;
  }
  ptx::StoreGlobal(work.different + thread, different);
  ptx::StoreGlobal(work.largest + thread, ptx::BitsOfFloat(largest));
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::bench
