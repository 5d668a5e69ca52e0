// Host code of dequantization, compiled for the device and for the emulator.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "base/math.h"
#include "base/numbers/quant/code_table.h"
#include "base/numbers/quant/elements.h"
#include "kernels/dequantize/dequantize.h"
#include "kernels/dequantize/dequantize_kernel.h"
#include "kernels/ptx/launch.h"

namespace gemmd::dequantize {
inline namespace GEMMD_BACKEND {

inline CodeFormat CodeFormatOf(DataType type) {
  CodeFormat format;
  format.bits = SizeBits(type);
  if (type == DataType::kE8M0) {
    format.kind = CodeKind::kE8M0;
  } else if (CodeTableOf(type) != nullptr) {
    format.kind = CodeKind::kTable;
  } else if (IsQuantizedInteger(type)) {
    format.kind = RangeOf(type).lowest < 0 ? CodeKind::kSigned : CodeKind::kUnsigned;
  } else {
    const FloatFormat& real = *FormatOf(type);
    format.kind = CodeKind::kFloat;
    format.fraction_bits = real.fraction_bits;
    // bf16's and f32's infinities and NaNs are binary32's own.
    if (real.top == FloatFormat::Top::kOneNan) format.top = CodeTop::kOneNan;
    if (real.top == FloatFormat::Top::kInfinityAndNans && real.exponent_bits < 8) {
      format.top = CodeTop::kInfinityAndNans;
    }
    format.unit = static_cast<float>(std::ldexp(1.0, 127 - real.bias));
  }
  return format;
}

// Returns log2 of a block's extent, or kWholeLog2 for kWhole. REQUIRES: a power of two, or kWhole.
inline std::uint8_t BlockLog2(std::uint16_t block) {
  if (block == kWhole) return kWholeLog2;
  std::uint8_t log2 = 0;
  while ((1u << log2) < block) ++log2;
  return log2;
}

inline DequantizeParams MakeParams(const Dequantization& d) {
  const Scaling& scaling = d.scaling;
  const std::int64_t scale_lines = d.scale_lines == 0 ? d.lines : d.scale_lines;
  DequantizeParams params = {};
  params.codes = d.codes;
  params.scales = scaling.has_scales ? d.scales : nullptr;
  params.zero_points = scaling.has_zero_points ? d.zero_points : nullptr;
  params.tensor_scale = scaling.has_tensor_scale ? d.tensor_scale : nullptr;
  params.offsets = scaling.has_offsets ? d.offsets : nullptr;
  params.values = d.values;
  params.line_scales = d.line_scales;
  params.line_factors = d.line_factors;
  params.lines = d.lines;
  params.k = d.k;
  params.line_stride = d.line_stride;
  params.k_stride = d.k_stride;
  params.pitch = DequantizedPitch(d.k);
  params.line_blocks = scaling.line_blocks(scale_lines);
  params.k_blocks = scaling.k_blocks(d.k);
  params.has_block_factors = HasBlockFactors(scaling, d.k);
  params.element = CodeFormatOf(d.element);
  if (const CodeTable* const table = CodeTableOf(d.element)) {
    std::copy(table->begin(), table->end(), params.table);
  }
  if (scaling.has_scales) params.scale = CodeFormatOf(scaling.type);
  params.order = scaling.order;
  params.block_lines_log2 = BlockLog2(scaling.block_lines);
  params.block_k_log2 = BlockLog2(scaling.block_k);
  params.zero_points_are_signed = params.element.kind == CodeKind::kSigned;
  return params;
}

// The planes that a launch reads, and those that it writes.
inline std::vector<ptx::DeviceBuffer> Buffers(const Dequantization& d) {
  const Scaling& scaling = d.scaling;
  // A part's scales are bounded by those of its lines along K, else by what follows them.
  const std::int64_t scale_lines = d.scale_lines == 0 ? d.lines : d.scale_lines;
  const auto scales = static_cast<std::uint64_t>(scaling.count(scale_lines, d.k));
  const auto lines = static_cast<std::uint64_t>(d.lines);
  const auto value_bytes = static_cast<std::uint64_t>(SizeBits(d.output)) / 8;
  std::vector<ptx::DeviceBuffer> buffers = {
      {d.codes, d.codes_bytes, "codes"},
      {d.values, lines * static_cast<std::uint64_t>(DequantizedPitch(d.k)) * value_bytes, "values",
       false}};
  const std::uint64_t scale_bytes = scales * static_cast<std::uint64_t>(SizeBits(scaling.type)) / 8;
  if (scaling.has_scales) {
    buffers.push_back({d.scales, scale_bytes, "scales"});
    buffers.push_back({d.line_scales, lines * 4, "line_scales", false});
  }
  if (scaling.has_zero_points) buffers.push_back({d.zero_points, scales, "zero_points"});
  if (scaling.has_offsets) buffers.push_back({d.offsets, scale_bytes, "offsets"});
  if (scaling.has_tensor_scale) {
    buffers.push_back({d.tensor_scale, 4, "tensor_scale"});
    buffers.push_back({d.line_factors, lines * 4, "line_factors", false});
  }
  return buffers;
}

inline std::uint32_t BlocksFor(std::int64_t size, std::int64_t of_a_block) {
  return static_cast<std::uint32_t>(CeilOfRatio(size, of_a_block));
}

inline absl::Status LaunchLineFactors(const Dequantization& d, const DequantizeParams& params,
                                      const LaunchTarget& target) {
  ptx::LaunchShape shape;
  shape.kernel = "dequantize/line_factors";
  shape.blocks_x = BlocksFor(d.lines, kThreads / kLineThreads);
  shape.threads = kThreads;
  shape.shared_bytes = kThreads * 4;
  return ptx::Launch(LineFactors, shape, params, Buffers(d), target);
}

template <class To>
auto LinesKernel(DataType element) -> void (*)(DequantizeParams) {
  switch (element) {
    case DataType::kInt8:
      return DequantizeLines<To, IntegerElement<CodeKind::kSigned, 8>>;
    case DataType::kInt4:
      return DequantizeLines<To, IntegerElement<CodeKind::kSigned, 4>>;
    case DataType::kUint4:
      return DequantizeLines<To, IntegerElement<CodeKind::kUnsigned, 4>>;
    case DataType::kFp8E4M3:
      return DequantizeLines<To, FloatElement<CodeTop::kOneNan, 8, 3, 7>>;
    case DataType::kFp8E5M2:
      return DequantizeLines<To, FloatElement<CodeTop::kInfinityAndNans, 8, 2, 15>>;
    case DataType::kFp6E3M2:
      return DequantizeLines<To, FloatElement<CodeTop::kFinite, 6, 2, 3>>;
    case DataType::kFp6E2M3:
      return DequantizeLines<To, FloatElement<CodeTop::kFinite, 6, 3, 1>>;
    case DataType::kFp4E2M1:
      return DequantizeLines<To, FloatElement<CodeTop::kFinite, 4, 1, 1>>;
    case DataType::kNf4:
    case DataType::kBnbFp4:
    case DataType::kIq4Nl:
      return DequantizeLines<To, TableElement>;
    default:
      return DequantizeLines<To, AnyElement>;
  }
}

template <class To>
absl::Status LaunchTo(const Dequantization& d, DequantizeParams params,
                      const LaunchTarget& target) {
  ptx::LaunchShape shape;
  shape.kernel = "dequantize/values";
  shape.threads = kThreads;
  if (d.k_stride == 1) {
    while ((1 << params.line_threads_log2) < kThreads &&
           (std::int64_t{kRun} << params.line_threads_log2) < d.k) {
      ++params.line_threads_log2;
    }
    params.blocks_along_line =
        BlocksFor(d.k, std::int64_t{kRun * kRuns} << params.line_threads_log2);
    shape.blocks_x = params.blocks_along_line *
                     BlocksFor(d.lines, std::int64_t{kThreads} >> params.line_threads_log2);
    shape.shared_bytes = CodeTableOf(d.element) == nullptr ? 0 : kTableBytes;
    return ptx::Launch(LinesKernel<To>(d.element), shape, params, Buffers(d), target);
  }
  params.blocks_along_line = BlocksFor(d.k, kTile);
  shape.blocks_x = params.blocks_along_line * BlocksFor(d.lines, kTile);
  shape.shared_bytes = kTableBytes + kTileBytes;
  return ptx::Launch(DequantizeTiles<To>, shape, params, Buffers(d), target);
}

// REQUIRES: what Dequantization does.
inline absl::Status LaunchChecked(const Dequantization& d, const LaunchTarget& target) {
  const DequantizeParams params = MakeParams(d);
  if (d.scaling.has_scales) {
    if (absl::Status s = LaunchLineFactors(d, params, target); !s.ok()) return s;
  }
  switch (d.output) {
    case DataType::kF64:
      return LaunchTo<ToF64>(d, params, target);
    case DataType::kF32:
      return LaunchTo<ToF32>(d, params, target);
    case DataType::kF16:
      return LaunchTo<ToF16>(d, params, target);
    default:
      return LaunchTo<ToBf16>(d, params, target);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::dequantize
