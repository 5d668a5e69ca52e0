// The element types of safetensors 0.8, by the names that its files use.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/numbers/types.h"

namespace gemmd::client {

struct SafetensorsType {
  absl::string_view name;
  int bits;
  std::optional<DataType> element;  // of matrices that servers take
  absl::string_view format;         // else the quantized format of the same values, if any
  absl::string_view why;            // else why there is none, and what is closest
};

absl::Span<const SafetensorsType> SafetensorsTypes();

// Null: there is none of that name.
const SafetensorsType* FindSafetensorsType(absl::string_view name);

}  // namespace gemmd::client
