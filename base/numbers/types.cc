#include "base/numbers/types.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace gemmd {

// scaling.h, which DataType's definition comes after, writes F32 as its number.
static_assert(Scaling::kTensor.type == DataType::kF32);

int SizeBits(DataType type) {
  switch (type) {
    case DataType::kF64:
      return 64;
    case DataType::kF32:
    case DataType::kTf32:
    case DataType::kInt32:
      return 32;
    case DataType::kF16:
    case DataType::kBf16:
      return 16;
    case DataType::kInt8:
    case DataType::kFp8E4M3:
    case DataType::kFp8E5M2:
    case DataType::kMxfp8E4M3:
    case DataType::kE8M0:
    case DataType::kUint8:
      return 8;
    case DataType::kFp6E3M2:
    case DataType::kFp6E2M3:
      return 6;
    case DataType::kInt4:
    case DataType::kUint4:
    case DataType::kFp4E2M1:
      return 4;
  }
  return 0;
}

bool IsQuantizedType(DataType type) {
  switch (type) {
    case DataType::kInt8:
    case DataType::kInt4:
    case DataType::kUint8:
    case DataType::kUint4:
    case DataType::kFp8E4M3:
    case DataType::kFp8E5M2:
    case DataType::kFp6E3M2:
    case DataType::kFp6E2M3:
    case DataType::kFp4E2M1:
      return true;
    default:
      return false;
  }
}

absl::string_view Name(DataType type) {
  switch (type) {
    case DataType::kF64:
      return "f64";
    case DataType::kF32:
      return "f32";
    case DataType::kTf32:
      return "tf32";
    case DataType::kF16:
      return "f16";
    case DataType::kBf16:
      return "bf16";
    case DataType::kInt8:
      return "int8";
    case DataType::kInt32:
      return "int32";
    case DataType::kFp8E4M3:
      return "fp8_e4m3";
    case DataType::kFp8E5M2:
      return "fp8_e5m2";
    case DataType::kMxfp8E4M3:
      return "mxfp8_e4m3";
    case DataType::kInt4:
      return "int4";
    case DataType::kE8M0:
      return "e8m0";
    case DataType::kUint8:
      return "uint8";
    case DataType::kUint4:
      return "uint4";
    case DataType::kFp6E3M2:
      return "fp6_e3m2";
    case DataType::kFp6E2M3:
      return "fp6_e2m3";
    case DataType::kFp4E2M1:
      return "fp4_e2m1";
  }
  return "?";
}

absl::string_view Name(Order order) {
  return order == Order::kRowMajor ? "row_major" : "column_major";
}

absl::string_view Name(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return "none";
    case Activation::kRelu:
      return "relu";
    case Activation::kGeluTanh:
      return "gelu_tanh";
    case Activation::kSilu:
      return "silu";
  }
  return "?";
}

std::string Name(const Scaling& scaling) {
  if (scaling == Scaling::kNone) return "none";
  if (scaling == Scaling::kTensor) return "tensor";
  if (scaling == Scaling::kVector) return "vector";
  const auto size = [](std::uint16_t block) {
    return block == kWhole ? std::string("all") : absl::StrCat(block);
  };
  std::string name =
      absl::StrCat(Name(scaling.type), "/", size(scaling.block_lines), "x", size(scaling.block_k));
  if (scaling.has_zero_points) name += "+zp";
  if (scaling.has_tensor_scale) name += "+tensor";
  if (scaling.order == ScaleOrder::kAlongLines) name += "@lines";
  if (scaling.order == ScaleOrder::kTiles128x4) name += "@tiles";
  return name;
}

absl::string_view Name(Determinism determinism) {
  return determinism == Determinism::kBatchInvariant ? "batch_invariant" : "fast";
}

}  // namespace gemmd
