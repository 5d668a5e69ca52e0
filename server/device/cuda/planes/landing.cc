#include "server/device/cuda/planes/landing.h"

#include <algorithm>

#include "base/math.h"

namespace gemmd {
namespace {

constexpr std::int64_t kTileDimension = 16;  // what cuBLASLt's 8-bit kernels divide by

bool Is8Bit(DataType type) { return SizeBits(type) == 8; }

void PadLines(MatrixLayout* layout) { layout->leading_dimension = PaddedLine(*layout); }

void Transpose(MatrixLayout* layout) {
  layout->order = layout->order == Order::kRowMajor ? Order::kColumnMajor : Order::kRowMajor;
}

}  // namespace

Problem LandedProblem(const Problem& problem) {
  Problem landed = problem;
  const bool is_packed = problem.b_packing != Packing::kNone;
  if (is_packed && !landed.a_is_k_major()) Transpose(&landed.a);
  if (IsDequantized(problem) || is_packed) {
    for (MatrixLayout* layout : {&landed.a, &landed.b, &landed.c, &landed.d}) {
      if (!IsQuantizedType(layout->type)) PadLines(layout);
    }
    return landed;
  }
  const bool is_8_bit = Is8Bit(problem.a.type);
  if (is_8_bit || problem.a.type == DataType::kTf32) {
    if (!landed.a_is_k_major()) Transpose(&landed.a);
    if (!landed.b_is_k_major()) Transpose(&landed.b);
  }
  if (is_8_bit) {
    for (std::int64_t* size : {&landed.m, &landed.n, &landed.k}) {
      *size = RoundUp(*size, kTileDimension);
    }
    for (MatrixLayout* layout : {&landed.a, &landed.b, &landed.c, &landed.d}) {
      layout->rows = RoundUp(layout->rows, kTileDimension);
      layout->columns = RoundUp(layout->columns, kTileDimension);
    }
  }
  for (MatrixLayout* layout : {&landed.a, &landed.b, &landed.c, &landed.d}) PadLines(layout);
  return landed;
}

std::uint64_t LandedBytes(const MatrixLayout& landed) {
  return static_cast<std::uint64_t>(landed.outer()) *
         ElementBytes(landed, landed.leading_dimension);
}

MatrixLayout ScratchLayout(const MatrixLayout& sent) {
  MatrixLayout scratch = sent;
  PadLines(&scratch);
  return scratch;
}

MatrixLayout CopiedLayout(const MatrixLayout& layout) {
  if (SizeBits(layout.type) >= 8) return layout;
  const auto bytes = static_cast<std::int64_t>(layout.size_bytes());
  return {DataType::kUint8, 1, bytes, Order::kRowMajor, bytes};
}

AllocationLayout LayOutBlock(const Problem& sent, const Problem& landed, const Residency& resident,
                             std::uint64_t workspace_bytes) {
  constexpr std::uint64_t kAlignment = 256;
  AllocationLayout block;
  const auto add = [&block](std::uint64_t bytes) {
    const AllocationLayout::Part part{block.total_bytes, bytes};
    block.total_bytes += RoundUp(bytes, kAlignment);
    return part;
  };
  const auto is_here = [&](WorkPlane plane) { return HasPlane(sent, plane) && !resident[plane]; };
  for (const WorkPlane plane : kWorkPlanes) {
    if (!is_here(plane)) continue;
    block.inputs[plane] =
        add(LandedBytes(InputLayout(PlaneOf(sent, plane), PlaneOf(landed, plane))));
  }
  block.inputs_bytes = block.total_bytes;
  block.landed = block.inputs;
  for (const WorkPlane plane : kWorkPlanes) {
    if (!is_here(plane)) continue;
    const MatrixLayout to = PlaneOf(landed, plane);
    if (IsTransposed(PlaneOf(sent, plane), to)) block.landed[plane] = add(LandedBytes(to));
  }
  if (!resident.d) block.d = add(LandedBytes(landed.d));
  block.workspace = add(workspace_bytes);
  return block;
}

}  // namespace gemmd
