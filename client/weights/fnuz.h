// The types F8_E4M3FNUZ and F8_E5M2FNUZ of safetensors, torch and ONNX. A code is worth half of
// what it is in F8_E4M3 or F8_E5M2, because the bias is more by 1; 0x80 is the only NaN, and those
// that are NaN or infinite there are numbers here. Values.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/numbers/types.h"

namespace gemmd::client {

struct Fnuz {
  absl::string_view name;
  DataType like;       // of which a code is worth twice as much
  std::uint32_t step;  // from one exponent to the next
  std::uint32_t top;   // the least magnitude that is no number of `like`

  static constexpr std::uint32_t kSign = 0x80;
  static constexpr std::uint32_t kNan = 0x80;
  static std::uint32_t Magnitude(std::uint32_t code) { return code & ~kSign; }

  bool IsTop(std::uint32_t code) const { return Magnitude(code) >= top; }
  // Returns whether `like` has the code's value.
  bool HasValueIn(std::uint32_t code) const {
    return code == kNan || Magnitude(code) >= 2 * step || code % 2 == 0;
  }
  // The code in `like`, worth as much. REQUIRES: HasValueIn(code).
  std::uint32_t SameValue(std::uint32_t code) const;
  // The code in `like`, worth twice as much. REQUIRES: !IsTop(code).
  std::uint32_t TwiceValue(std::uint32_t code) const;
  // F16 has them all.
  std::uint16_t F16Of(std::uint32_t code) const;
};

// Null: it is another type.
const Fnuz* FindFnuz(absl::string_view type);

}  // namespace gemmd::client
