#include "kernels/dequantize/dequantize.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/numbers/quant/code_table.h"
#include "base/numbers/quant/elements.h"
#include "kernels/dequantize/dequantize_kernel_entries.h"

namespace gemmd {
namespace {

// Blocks of scales begin where a thread's values do; see dequantize_kernel.h.
constexpr int kRun = 8;
constexpr std::uintptr_t kVectorBytes = 16;

absl::Status Fault(const char* field, std::int64_t value, absl::string_view limit) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be ", limit));
}

absl::Status TypeFault(const char* field, DataType type, const char* limit) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", Name(type), "; it must be ", limit));
}

absl::Status CheckPlane(const char* field, bool is_needed, const void* plane) {
  if (!is_needed || plane != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is null; the operand has such a plane"));
}

bool IsOutput(DataType type) {
  return type == DataType::kBf16 || type == DataType::kF16 || type == DataType::kF32 ||
         type == DataType::kF64;
}

bool IsPowerOfTwo(std::uint16_t value) { return (value & (value - 1)) == 0; }  // or 0

bool IsElement(DataType type) {
  return IsQuantizedInteger(type) || CodeTableOf(type) != nullptr || FormatOf(type) != nullptr;
}

absl::Status Check(const Dequantization& d) {
  constexpr std::int64_t kMostBlocks = std::numeric_limits<std::int32_t>::max();
  const Scaling& scaling = d.scaling;
  if (!IsElement(d.element)) return TypeFault("element", d.element, "quantized, f32, f16 or bf16");
  if (!IsOutput(d.output)) return TypeFault("output", d.output, "bf16, f16, f32 or f64");
  if (scaling.has_scales && scaling.type != DataType::kE8M0 && FormatOf(scaling.type) == nullptr) {
    return TypeFault("scaling.type", scaling.type, "f32, f16, bf16, e8m0 or fp8_e4m3");
  }
  if (d.lines < 1) return Fault("lines", d.lines, "at least 1");
  if (d.k < 1) return Fault("k", d.k, "at least 1");
  if (d.k_stride != 1 && d.line_stride != 1) {
    return Fault("k_stride", d.k_stride, "1, or line_stride");
  }
  if (scaling.has_scales && (scaling.block_k % kRun != 0 || !IsPowerOfTwo(scaling.block_k))) {
    return Fault("scaling.block_k", scaling.block_k, "a power of two of at least 8, or 0");
  }
  if (scaling.has_scales && !IsPowerOfTwo(scaling.block_lines)) {
    return Fault("scaling.block_lines", scaling.block_lines, "a power of two, or 0");
  }
  // Blocks have at least this many elements.
  const std::int64_t blocks = (d.lines / kRun + 1) * (d.k / kRun + 1);
  if (blocks > kMostBlocks)
    return Fault("lines * k / 64", blocks, absl::StrCat(kMostBlocks, " at most"));
  const struct {
    const char* name;
    bool is_needed;
    const void* plane;
  } planes[] = {{"codes", true, d.codes},
                {"scales", scaling.has_scales, d.scales},
                {"line_scales", scaling.has_scales, d.line_scales},
                {"line_factors", scaling.has_scales, d.line_factors},
                {"zero_points", scaling.has_zero_points, d.zero_points},
                {"tensor_scale", scaling.has_tensor_scale, d.tensor_scale},
                {"offsets", scaling.has_offsets, d.offsets},
                {"values", true, d.values}};
  for (const auto& each : planes) {
    if (absl::Status s = CheckPlane(each.name, each.is_needed, each.plane); !s.ok()) return s;
  }
  if (reinterpret_cast<std::uintptr_t>(d.values) % kVectorBytes != 0) {
    return absl::InvalidArgumentError("values must be aligned to 16 bytes");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LaunchDequantize(const Dequantization& dequantization, const LaunchTarget& target) {
  if (absl::Status status = Check(dequantization); !status.ok()) return status;
  return dequantize::DequantizeFor(target)(dequantization, target);
}

}  // namespace gemmd
