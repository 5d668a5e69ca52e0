// The names that tenants give to operands on a server.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd {

inline constexpr std::size_t kMaxOperandNameBytes = 255;

// Return whether a text has the form of an operand's handle, "a1b2c3d4-7", or of its digest in
// hexadecimal. No name has one of these forms, so that a text says by itself which it is.
bool HasHandleForm(absl::string_view text);
bool HasDigestForm(absl::string_view text);

// INVALID_ARGUMENT, which names the field, unless it is 1 to 255 bytes of UTF-8 without control
// characters and in neither of these forms.
absl::Status CheckOperandName(absl::string_view field, absl::string_view name);

}  // namespace gemmd
