// The registry's entries, by the format of B.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/hopper/quant/packed.h"
#include "kernels/hopper/quant/quant_registry.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {

inline const Kernel& KernelOf(hopper::quant::CodeFormat format) {
  static const auto* const kernels = [] {
    auto* all = new std::vector<std::unique_ptr<const Kernel>>;
    AppendHopperQuant(all);
    return all;
  }();
  Problem problem = MakeQuantProblem(CaseOf(format, 1, 128, 128));
  problem.b_packing = Packing::kStrips;
  return **std::find_if(kernels->begin(), kernels->end(),
                        [&](const auto& kernel) { return kernel->Rejection(problem).empty(); });
}

}  // namespace gemmd::testing
