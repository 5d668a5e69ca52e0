// Requests of the Open Inference Protocol made of somebody's bytes, for tests and fuzzers.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace gemmd::testing {

// The models that a request can be mapped to.
inline constexpr int kInferCheckModels = 5;

// Maps the bytes, cut at `cut`, to that model. Empty where they are refused, or the call is what
// the request says: each inline plane has the bytes of its shape, all of them within the message or
// of typed contents, and D has the answer's shape. Otherwise says what is wrong. `is_taken` says
// whether a product came of it.
std::string WhatIsWrong(int model, absl::string_view bytes, std::size_t cut, bool* is_taken);

}  // namespace gemmd::testing
