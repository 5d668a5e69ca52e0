#include "tests/kernels/conformance/vector_sets_list.h"

namespace gemmd::conformance {

std::vector<VectorSet> EmulatedVectorSets() { return MakeVectorSets(); }

}  // namespace gemmd::conformance
