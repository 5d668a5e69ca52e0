// The words every layer shares: element types, orders, activations, classes of
// determinism, each with its printable name.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/numbers/scaling.h"  // IWYU pragma: export

namespace gemmd {

// Element types, as in gemmd.v1.DataType.
enum class DataType : std::uint8_t {
  kF64,
  kF32,
  kTf32,  // stored as binary32
  kF16,
  kBf16,
  kInt8,
  kInt32,
  kFp8E4M3,
  kFp8E5M2,
  kMxfp8E4M3,
  kInt4,
  kE8M0,
  kUint8,
  kUint4,
  kFp6E3M2,
  kFp6E2M3,
  kFp4E2M1,
};

// The index that runs fastest in memory.
enum class Order : std::uint8_t { kRowMajor, kColumnMajor };

enum class Activation : std::uint8_t { kNone, kRelu, kGeluTanh, kSilu };

// The conditions that a result's bits may depend on; ARCHITECTURE.md defines the classes.
enum class Determinism : std::uint8_t { kBatchInvariant, kFast };

// Bits one element takes in memory: 4 or 6, else a multiple of 8. base/numbers/quant/packed_codes.h
// says where the bits of those lie.
int SizeBits(DataType type);

// Returns whether operands of the type may have scales: integers and floats of at most 8 bits.
bool IsQuantizedType(DataType type);

absl::string_view Name(DataType type);
absl::string_view Name(Order order);
absl::string_view Name(Activation activation);
absl::string_view Name(Determinism determinism);

}  // namespace gemmd
