#include "base/numbers/types.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace gemmd {

// scaling.h, which DataType's definition comes after, writes F32 as its number.
static_assert(Scaling::kTensor.type == DataType::kF32);

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
  if (scaling.has_offsets) name += "+offset";
  if (scaling.has_tensor_scale) name += "+tensor";
  if (scaling.order == ScaleOrder::kAlongLines) name += "@lines";
  if (scaling.order == ScaleOrder::kTiles128x4) name += "@tiles";
  return name;
}

absl::string_view Name(Determinism determinism) {
  return determinism == Determinism::kBatchInvariant ? "batch_invariant" : "fast";
}

}  // namespace gemmd
