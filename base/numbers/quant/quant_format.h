// A quantized format as a value: what its elements are, and what scales them. README.md beside this
// header is the specification of each, base/numbers/scaling.h of what a Scaling means.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/numbers/types.h"

namespace gemmd {

struct QuantFormat {
  DataType element{};
  Scaling scaling;
};

// Returns whether it has codes for negative values, as all have but unsigned integers without zero
// points and offsets.
bool HasSign(const QuantFormat& format);

// Returns whether products of two such operands are integers times scales: it has integers, and no
// offsets.
bool HasIntegerSums(const QuantFormat& format);

// Bits an element takes with its share of scales, zero points and offsets, in blocks that are
// whole. Scales of whole lines and of the tensor count nothing.
double BitsPerElement(const QuantFormat& format);

struct NamedFormat {
  std::string name;
  QuantFormat format;
};

// Every format of README.md, with scales along K.
absl::Span<const NamedFormat> QuantFormats();

// The format of that name, or null.
const QuantFormat* FindQuantFormat(absl::string_view name);

}  // namespace gemmd
