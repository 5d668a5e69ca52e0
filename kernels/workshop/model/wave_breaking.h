// The ways past the bound that whole waves set, each played on the machine: what D12 chooses among.
#pragma once

#include <string>
#include <vector>

#include "kernels/workshop/model/simulation.h"

namespace gemmd::model {

struct Variant {
  std::string name;
  // A row's bits are the same whatever M is.
  bool is_batch_invariant;
  // Its bits are those of the ladder's other steps, so that it may be chosen by any shape.
  bool has_ladder_bits;
  double tensor_waves;  // by counting, were the tensor core all
  double waves;         // by counting, with ports and banks
  Result result;
};

// M = N = K = side, on the kernel of step 10; whole tiles first, then those that are
// batch-invariant.
std::vector<Variant> Variants(const Machine& machine, int side);

}  // namespace gemmd::model
