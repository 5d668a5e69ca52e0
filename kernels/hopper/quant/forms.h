// The forms of a product as one list: the tilings of all kernels, which ones take a problem, and
// the time that one is expected to take. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/config.h"
#include "kernels/device_traits.h"
#include "kernels/hopper/quant/packed.h"
#include "kernels/problem.h"

namespace gemmd::hopper::quant {

enum class FormKind : std::uint8_t { kFew, kWide };

struct Form {
  CodeFormat format = CodeFormat::kInt4;
  FormKind kind = FormKind::kWide;
  int tiling = 0;  // its place in the kind's tilings of the format
};

inline bool operator==(const Form& x, const Form& y) {
  return x.format == y.format && x.kind == y.kind && x.tiling == y.tiling;
}

// Those of a format of B, each with a config of its own.
const std::vector<Form>& FormsOf(CodeFormat format);
Config ConfigOf(const Form& form);

// Returns whether the form is of B's format and has room for the problem's rows, and its blocks
// divide the packed lines.
bool Takes(const Form& form, const Problem& problem);

// In us, on a device of sm_90 or an emulated one. REQUIRES: the form takes the problem.
double PredictedUs(const Form& form, const Problem& problem, const DeviceTraits& device);

// The one that takes the problem in the least time: there always is one.
Form QuickestForm(const Problem& problem, const DeviceTraits& device);

}  // namespace gemmd::hopper::quant
