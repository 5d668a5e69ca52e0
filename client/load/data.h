// Seeded operands: the same seed gives the same bytes everywhere.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/numbers/types.h"
#include "client/matrix.h"

namespace gemmd::load {

enum class Distribution {
  kNormal,   // mean 0, deviation 1
  kUniform,  // 0 to 1: sums grow, nothing cancels
  kScales,   // normal times 2^-6 .. 2^6: small values meet large ones
};

struct DataSpec {
  Distribution distribution = Distribution::kNormal;
  bool nan = false;      // about one element in a thousand, and at least one
  bool has_sign = true;  // else magnitudes of the same
};

// f64, f32, tf32, f16, bf16 and int8.
bool CanGenerate(DataType type);

// For int8, normal is rounded from deviation 32, uniform takes the whole range, and scales is as
// normal; values beyond the range are cut off. REQUIRES: the format is valid and tightly packed,
// CanGenerate(its type), and no NaN of int8.
client::Matrix Generate(const client::MatrixFormat& format, const DataSpec& spec,
                        std::uint64_t seed);

// Element `index` in memory. REQUIRES: CanGenerate(type) or int32.
double ElementAt(DataType type, absl::string_view bytes, std::uint64_t index);

}  // namespace gemmd::load
