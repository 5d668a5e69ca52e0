// The forms of products of 8-bit operands that tests run: types, scales, orders; and the entries.
#pragma once

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/gemm.h"
#include "kernels/hopper/bytes/tilings.h"
#include "tests/kernels/hopper/bytes/byte_planes.h"

namespace gemmd::testing {

inline constexpr DataType kE4M3 = DataType::kFp8E4M3;
inline constexpr DataType kE5M2 = DataType::kFp8E5M2;
inline constexpr Scaling kLines = Scaling::kVector;
inline constexpr Scaling k1x128 = {true, DataType::kF32, 1, 128, ScaleOrder::kAlongLines};
inline constexpr Scaling k1x128AlongK = {true, DataType::kF32, 1, 128, ScaleOrder::kAlongK};
inline constexpr Scaling k128x128 = {true, DataType::kF32, 128, 128, ScaleOrder::kAlongK};

inline const Kernel& KernelOf(const std::string& name) { return *BuiltinRegistry().Find(name); }

// The tilings that take operands of a type, and the most of any.
inline int TilingsOf(DataType type) {
  return type == DataType::kInt8 ? hopper::bytes::kInt8TilingCount : hopper::bytes::kFp8TilingCount;
}
inline constexpr int kMostTilings =
    std::max(hopper::bytes::kInt8TilingCount, hopper::bytes::kFp8TilingCount);

// The entry of a tiling for the case's operands.
inline std::string EntryOf(int tiling, const ByteCase& c) {
  const hopper::bytes::ByteTiling& its =
      (IsInt8(c) ? hopper::bytes::kInt8Tilings : hopper::bytes::kFp8Tilings)[tiling];
  const std::string name = hopper::half::kTilings[its.place].name;
  return absl::StrCat("sm90/", IsInt8(c) ? "int8_" : "fp8_", name.substr(sizeof("sm90/") - 1));
}

struct Form {
  const char* name;
  DataType a;
  DataType b;
  DataType d;
  Scaling a_scaling;
  Scaling b_scaling;
  Order d_order;
};

inline constexpr Form kForms[] = {
    {"Int32", DataType::kInt8, DataType::kInt8, DataType::kInt32, Scaling::kNone, Scaling::kNone,
     Order::kRowMajor},
    {"Int8ToBf16ByLines", DataType::kInt8, DataType::kInt8, DataType::kBf16, kLines, kLines,
     Order::kRowMajor},
    {"Int8ToF32ByTensor", DataType::kInt8, DataType::kInt8, DataType::kF32, Scaling::kTensor,
     kLines, Order::kColumnMajor},
    {"Fp8ToF16", kE4M3, kE4M3, DataType::kF16, kLines, kLines, Order::kColumnMajor},
    {"Fp8ToF32", kE4M3, kE5M2, DataType::kF32, Scaling::kNone, Scaling::kNone, Order::kColumnMajor},
    {"Fp8OtherPair", kE5M2, kE4M3, DataType::kF32, Scaling::kTensor, Scaling::kNone,
     Order::kRowMajor},
    {"Fp8E5M2", kE5M2, kE5M2, DataType::kF32, Scaling::kNone, Scaling::kNone, Order::kRowMajor},
    {"Blocks", kE4M3, kE4M3, DataType::kBf16, k1x128, k128x128, Order::kRowMajor},
    {"BlocksOfLines", kE4M3, kE5M2, DataType::kF32, k1x128AlongK, k1x128, Order::kColumnMajor},
    {"BlocksOfLinesInB", kE4M3, kE4M3, DataType::kF32, k128x128, k1x128AlongK, Order::kRowMajor},
};

inline ByteCase CaseOf(const Form& form, std::int64_t m, std::int64_t n, std::int64_t k) {
  return {m, n, k, form.a, form.b, form.d, form.a_scaling, form.b_scaling, form.d_order};
}

}  // namespace gemmd::testing
