// The words every layer shares: element types, orders, activations, classes of
// determinism, each with its printable name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/numbers/scaling.h"  // IWYU pragma: export

namespace gemmd {

// The roles that an element type may have.
enum class DataTypeRole : std::uint8_t {
  kPlain,     // of a matrix, without scales
  kCodes,     // of a matrix that may have scales: integers and floats of at most 8 bits
  kScales,    // of scales alone
  kReserved,  // the wire has a value for it, and no request may use it
};

// Every element type in one place: ROW(enumerator, enumerator of gemmd.v1.DataType, name, bits of
// an element in memory, role). Bits are 4 or 6, else a multiple of 8;
// base/numbers/quant/packed_codes.h says where the bits of those lie. A switch over all types has
// no `default`, so that the compiler holds it complete; other loops are over kDataTypes. A
// `default` stands where only some types come.
#define GEMMD_DATA_TYPES(ROW)                             \
  ROW(kF64, F64, "f64", 64, kPlain)                       \
  ROW(kF32, F32, "f32", 32, kPlain)                       \
  ROW(kTf32, TF32, "tf32", 32, kPlain) /* as binary32 */  \
  ROW(kF16, F16, "f16", 16, kPlain)                       \
  ROW(kBf16, BF16, "bf16", 16, kPlain)                    \
  ROW(kInt8, INT8, "int8", 8, kCodes)                     \
  ROW(kInt32, INT32, "int32", 32, kPlain)                 \
  ROW(kFp8E4M3, FP8_E4M3, "fp8_e4m3", 8, kCodes)          \
  ROW(kFp8E5M2, FP8_E5M2, "fp8_e5m2", 8, kCodes)          \
  ROW(kMxfp8E4M3, MXFP8_E4M3, "mxfp8_e4m3", 8, kReserved) \
  ROW(kInt4, INT4, "int4", 4, kCodes)                     \
  ROW(kE8M0, E8M0, "e8m0", 8, kScales)                    \
  ROW(kUint8, UINT8, "uint8", 8, kCodes)                  \
  ROW(kUint4, UINT4, "uint4", 4, kCodes)                  \
  ROW(kFp6E3M2, FP6_E3M2, "fp6_e3m2", 6, kCodes)          \
  ROW(kFp6E2M3, FP6_E2M3, "fp6_e2m3", 6, kCodes)          \
  ROW(kFp4E2M1, FP4_E2M1, "fp4_e2m1", 4, kCodes)          \
  ROW(kNf4, NF4, "nf4", 4, kCodes)                        \
  ROW(kBnbFp4, BNB_FP4, "bnb_fp4", 4, kCodes)             \
  ROW(kIq4Nl, IQ4_NL, "iq4_nl", 4, kCodes)

#define GEMMD_DATA_TYPE_ENUMERATOR(type, wire, name, bits, role) type,
enum class DataType : std::uint8_t { GEMMD_DATA_TYPES(GEMMD_DATA_TYPE_ENUMERATOR) };
#undef GEMMD_DATA_TYPE_ENUMERATOR

struct DataTypeTraits {
  absl::string_view name;
  int bits;
  DataType type;
  DataTypeRole role;
};

// In the order of their enumerators.
#define GEMMD_DATA_TYPE_TRAITS(type, wire, name, bits, role) \
  {name, bits, DataType::type, DataTypeRole::role},
inline constexpr DataTypeTraits kDataTypes[] = {GEMMD_DATA_TYPES(GEMMD_DATA_TYPE_TRAITS)};
#undef GEMMD_DATA_TYPE_TRAITS

constexpr const DataTypeTraits& TraitsOf(DataType type) {
  return kDataTypes[static_cast<std::size_t>(type)];
}

// Bits that one element takes in memory.
constexpr int SizeBits(DataType type) { return TraitsOf(type).bits; }

// Returns whether operands of the type may have scales.
constexpr bool IsQuantizedType(DataType type) {
  return TraitsOf(type).role == DataTypeRole::kCodes;
}

constexpr absl::string_view Name(DataType type) { return TraitsOf(type).name; }

// The index that runs fastest in memory.
enum class Order : std::uint8_t { kRowMajor, kColumnMajor };

enum class Activation : std::uint8_t { kNone, kRelu, kGeluTanh, kSilu };

// The conditions that a result's bits may depend on; docs/determinism.md defines the classes.
enum class Determinism : std::uint8_t { kBatchInvariant, kFast };

absl::string_view Name(Order order);
absl::string_view Name(Activation activation);
absl::string_view Name(Determinism determinism);

}  // namespace gemmd
