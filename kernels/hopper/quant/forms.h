// The forms of a product as one list: the tilings of both kernels, which ones take a problem, and
// the time that one is expected to take. Pure functions.
#pragma once

#include <vector>

#include "kernels/config.h"
#include "kernels/device_traits.h"
#include "kernels/problem.h"

namespace gemmd::hopper::quant {

struct Form {
  bool is_few = false;  // of kFewTilings, else of kWideTilings
  int tiling = 0;       // its place there
};

inline bool operator==(const Form& x, const Form& y) {
  return x.is_few == y.is_few && x.tiling == y.tiling;
}

// All of them, each with a config of its own.
const std::vector<Form>& Forms();
Config ConfigOf(const Form& form);

// Returns whether the form has room for the problem's rows, and its blocks divide the packed lines.
bool Takes(const Form& form, const Problem& problem);

// In us, on a device of sm_90 or an emulated one. REQUIRES: the form takes the problem.
double PredictedUs(const Form& form, const Problem& problem, const DeviceTraits& device);

// The one that takes the problem in the least time: there always is one.
Form QuickestForm(const Problem& problem, const DeviceTraits& device);

}  // namespace gemmd::hopper::quant
