// One run: each case is checked first, then timed beside the rival.
#pragma once

#include <functional>
#include <random>
#include <vector>

#include "kernels/registry.h"
#include "kernels/workshop/bench/machine.h"
#include "kernels/workshop/bench/options.h"
#include "kernels/workshop/bench/report.h"

namespace gemmd::bench {

// The registry's kernels that the globs name, in the globs' order. NOT_FOUND names a glob that
// matches none.
absl::StatusOr<std::vector<const Kernel*>> MatchingKernels(const Registry& registry,
                                                           const std::vector<std::string>& globs);

// Kernels that do not take the case get a row with the reason; wrong ones are not timed.
CaseReport RunCase(const Case& c, const std::vector<const Kernel*>& kernels, const Options& options,
                   std::mt19937_64* order, Machine* machine);

// Measures the peaks that the cases need.
std::map<std::string, Peaks> MeasurePeaks(const std::vector<Case>& cases, const Protocol& protocol,
                                          Machine* machine);

}  // namespace gemmd::bench
